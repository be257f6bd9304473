// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package front passes on the requests of etcd's clients to the members of an etcd cluster, each by itself.
//
// A member of etcd that stops cuts off the requests under way, and a cluster whose leadership moves drops some. No
// client can tell whether such a request was carried out, so none repeats it. A front avoids both: it ends the clients'
// connections, so that a member may come and go behind it; it drains a member before the member stops; and it holds
// requests while leadership moves. Steering is how it is told to.
//
// A front knows nothing of the content of requests but their method. Whoever reaches it needs a client certificate of
// etcd's authority, as for the members.
package front

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/etcd/front/config"
	"github.com/livecpm/livecpm/pkg/program/pod"
)

const (
	// minPing is how often clients may ping: as often as etcd lets them by default.
	minPing = 5 * time.Second
	// pingIdle is after which time without a word a client is asked whether it is still there, and pingTimeout how long
	// it may take to answer.
	pingIdle    = 30 * time.Second
	pingTimeout = 10 * time.Second
	// handshakeTimeout is how long a client may take to show its certificate. A shutdown waits for that too.
	handshakeTimeout = 3 * time.Second
)

// Front serves one configuration.
type Front struct {
	log      logr.Logger
	clock    clock.WithTicker
	config   *config.Config
	registry *prometheus.Registry
	metrics  *metrics
	certs    *pod.Certificates
	traffic  *traffic
	server   *grpc.Server
	ending   atomic.Bool
}

// New loads the certificates that the configuration names. The configuration must be defaulted and valid.
func New(cfg *config.Config, log logr.Logger, clk clock.WithTicker) (*Front, error) {
	log = log.WithValues("etcd", cfg.Etcd)
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	certs, err := pod.LoadCertificates(
		pod.CertificateMetrics{Reloads: m.certificateReloads, Expiry: m.certificateExpiry}, cfg.TLS.CAFile,
		pod.Pair{CertFile: cfg.TLS.ServerCertFile, KeyFile: cfg.TLS.ServerKeyFile},
		pod.Pair{CertFile: cfg.TLS.ClientCertFile, KeyFile: cfg.TLS.ClientKeyFile})
	if err != nil {
		return nil, err
	}
	t := &traffic{log: log, clock: clk, limits: cfg.Limits, metrics: m}
	for _, memberConfig := range cfg.Members {
		member, err := newMember(memberConfig, certs, log)
		if err != nil {
			return nil, fmt.Errorf("failed to prepare the connection to member %d: %w", memberConfig.Ordinal, err)
		}
		t.members = append(t.members, member)
		m.eligible.WithLabelValues(label(member.Ordinal)).Set(0)
		m.drained.WithLabelValues(label(member.Ordinal)).Set(0)
	}
	f := &Front{log: log, clock: clk, config: cfg, registry: registry, metrics: m, certs: certs, traffic: t}
	f.server = grpc.NewServer(
		grpc.Creds(credentialsForClients(certs)),
		grpc.ForceServerCodecV2(codec{}),
		grpc.UnknownServiceHandler((&proxy{traffic: t}).handle),
		// etcd itself refuses what is too large for it.
		grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingIdle, Timeout: pingTimeout}),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.WaitForHandlers(true),
	)
	f.server.RegisterService(&steeringDesc, t)
	return f, nil
}

// Start serves until the context ends. Then the front is not ready any more, serves for the shutdown delay, tells its
// clients to go elsewhere, ends their streams, and gives requests under way the shutdown timeout.
func (f *Front) Start(ctx context.Context) error {
	defer func() {
		for _, m := range f.traffic.members {
			_ = m.conn.Close()
		}
	}()
	listener, forwarders, err := f.listen(ctx)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, running := errgroup.WithContext(running)
	defer context.AfterFunc(running, func() { // also if one of the servers fails
		f.server.Stop()
		for _, forwarder := range forwarders {
			_ = forwarder.listener.Close()
		}
	})()
	group.Go(func() error { return f.server.Serve(listener) })
	for _, forwarder := range forwarders {
		group.Go(func() error { return forwarder.serve(running) })
	}
	group.Go(func() error { return pod.ServeHTTP(running, f.config.Health.Port, pod.HealthHandler(f.notReady)) })
	group.Go(func() error {
		return pod.ServeHTTP(running, f.config.Metrics.Port, promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{}))
	})
	group.Go(func() error { f.certs.Watch(running, f.log, f.clock); return nil })
	for _, m := range f.traffic.members {
		group.Go(func() error { m.follow(running, f.traffic); return nil })
		group.Go(func() error { m.ask(running, f.traffic, f.clock); return nil })
	}
	group.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
			f.end(running, forwarders)
		case <-running.Done():
		}
		return nil
	})
	f.log.Info("Serving", "port", f.config.Port, "members", len(f.config.Members), "forwards", len(forwarders))
	err = group.Wait()
	f.log.Info("Stopped")
	return err
}

// listen opens the ports before any is served: a front that holds only some of them would mislead its readiness.
func (f *Front) listen(ctx context.Context) (listener net.Listener, forwarders []*forwarder, err error) {
	lc := net.ListenConfig{}
	defer func() {
		if err == nil {
			return
		}
		if listener != nil {
			_ = listener.Close()
		}
		for _, forwarder := range forwarders {
			_ = forwarder.listener.Close()
		}
	}()
	if listener, err = lc.Listen(ctx, "tcp", pod.PortAddress(f.config.Port)); err != nil {
		return nil, nil, fmt.Errorf("failed to listen: %w", err)
	}
	for _, forward := range f.config.Forwards {
		l, err := lc.Listen(ctx, "tcp", pod.PortAddress(forward.Port))
		if err != nil {
			return listener, forwarders, fmt.Errorf("failed to listen: %w", err)
		}
		forwarders = append(forwarders, &forwarder{config: forward, log: f.log.WithValues("port", forward.Port),
			traffic: f.traffic, metrics: f.metrics, listener: l,
			slots: make(chan struct{}, f.config.Limits.MaxForwards)})
	}
	return listener, forwarders, nil
}

// end leads clients away and returns when they are gone, or when they have had time enough.
func (f *Front) end(running context.Context, forwarders []*forwarder) {
	f.ending.Store(true)
	f.log.Info("Not ready any more, still serving", "delay", f.config.Limits.ShutdownDelay.Duration.String())
	select {
	case <-f.clock.After(f.config.Limits.ShutdownDelay.Duration):
	case <-running.Done():
		return
	}
	for _, forwarder := range forwarders {
		_ = forwarder.listener.Close()
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		f.server.GracefulStop()
	}()
	f.traffic.close() // GracefulStop waits for streams, and does not end them
	select {
	case <-gone:
	case <-running.Done():
	case <-f.clock.After(f.config.Limits.ShutdownTimeout.Duration):
		f.log.Info("Requests under way did not end in time, ending them")
		f.server.Stop()
		<-gone
	}
}

// notReady says why clients are not to be led here; empty if they are.
func (f *Front) notReady() string {
	switch {
	case f.ending.Load():
		return "about to stop"
	case !f.traffic.ready():
		return "no member is eligible"
	}
	return ""
}
