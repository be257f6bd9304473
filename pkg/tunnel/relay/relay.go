// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package relay carries the TLS connections of etcd between two seeds without ending them.
//
// A relay has two sides. On the near side it takes connections of local dialers, reads the server name from their
// ClientHello and tunnels them to the relay of the other seed. Between the relays the untouched bytes travel in an
// outer, mutually authenticated TLS connection. There are two reasons for that layer: its server name is unique per
// shoot, which the inner one is not, so that the other seed's gateway can route by it; and nobody reaches etcd's port
// from outside the seed who has no certificate of this shoot's relays. On the far side a relay takes the outer
// connection, reads the server name inside once more and hands the bytes to a local target.
//
// What anybody may try, and what becomes of it, is in docs/security.md.
package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/program/pod"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// Relay serves one configuration.
type Relay struct {
	log      logr.Logger
	clock    clock.WithTicker
	config   *config.Config
	registry *prometheus.Registry
	metrics  *metrics
	redials  redials
	certs    *pod.Certificates
	outer    *outerTLS
	dialer   net.Dialer
	slots    chan struct{} // taken by connections that have shown who they are
	muffler  *muffler
	serving  atomic.Bool
	routes   sync.Map // route name to *atomic.Bool: whether its last connection failed
}

// New loads the certificates that the configuration names. The configuration must be defaulted and valid.
func New(cfg *config.Config, log logr.Logger, clk clock.WithTicker) (*Relay, error) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	certs, err := pod.LoadCertificates(
		pod.CertificateMetrics{Reloads: m.certificateReloads, Expiry: m.certificateExpiry}, cfg.TLS.CAFile,
		pod.Pair{CertFile: cfg.TLS.CertFile, KeyFile: cfg.TLS.KeyFile})
	if err != nil {
		return nil, err
	}
	r := &Relay{
		log:      log,
		clock:    clk,
		config:   cfg,
		registry: registry,
		metrics:  m,
		redials:  newRedials(cfg.Near, clk),
		certs:    certs,
		dialer: net.Dialer{Timeout: cfg.Limits.DialTimeout.Duration, KeepAliveConfig: wire.KeepAlive,
			Control: wire.Control},
		slots:   make(chan struct{}, cfg.Limits.MaxConnections),
		muffler: newMuffler(clk),
	}
	r.outer = newOuterTLS(certs, func(name string) bool { _, found := r.findFar(name); return found })
	return r, nil
}

// listener is an open port and what is done with its connections.
type listener struct {
	net.Listener

	handle    func(context.Context, *net.TCPConn, *permit)
	strangers *strangers
}

// Start serves until the context ends, then gives open connections the drain timeout and resets what is left.
func (r *Relay) Start(ctx context.Context) error {
	listeners, err := r.listen(ctx)
	if err != nil {
		return err
	}
	// Connections outlive ctx by the drain timeout.
	connections, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var open sync.WaitGroup
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		group.Go(func() error { return r.accept(ctx, connections, l, &open) })
	}
	group.Go(func() error { return pod.ServeHTTP(ctx, r.config.Health.Port, pod.HealthHandler(r.notReady)) })
	group.Go(func() error {
		return pod.ServeHTTP(ctx, r.config.Metrics.Port, promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}))
	})
	group.Go(func() error { r.certs.Watch(ctx, r.log, r.clock); return nil })
	r.serving.Store(true)
	r.log.Info("Serving", "near", len(r.config.Near), "farPort", r.config.Far.Port)

	err = group.Wait()
	r.serving.Store(false)
	drained := make(chan struct{})
	go func() { open.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-r.clock.After(r.config.Limits.DrainTimeout.Duration):
		abort()
		<-drained
	}
	r.log.Info("Stopped")
	return err
}

// listen opens all ports before any is served: a relay that holds only some of them would mislead its readiness.
func (r *Relay) listen(ctx context.Context) (listeners []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
		}
	}()
	lc := net.ListenConfig{KeepAliveConfig: wire.KeepAlive, Control: wire.Control}
	open := func(port int32, handle func(context.Context, *net.TCPConn, *permit)) error {
		l, err := lc.Listen(ctx, "tcp", pod.PortAddress(port))
		if err != nil {
			return fmt.Errorf("failed to listen: %w", err)
		}
		listeners = append(listeners, listener{l, handle, newStrangers(r.config.Limits.MaxHandshakes)})
		return nil
	}
	for _, near := range r.config.Near {
		if err := open(near.Port, func(ctx context.Context, conn *net.TCPConn, p *permit) {
			r.handleNear(ctx, conn, p, near)
		}); err != nil {
			return listeners, err
		}
	}
	if r.config.Far.Port != 0 {
		if err := open(r.config.Far.Port, r.handleFar); err != nil {
			return listeners, err
		}
	}
	return listeners, nil
}

func (r *Relay) accept(ctx, connections context.Context, l listener, open *sync.WaitGroup) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				wire.Reset(conn)
			}
			return nil
		}
		if err != nil {
			var temporary interface{ Temporary() bool }
			if !errors.As(err, &temporary) || !temporary.Temporary() {
				return fmt.Errorf("failed to accept on %s: %w", l.Addr(), err)
			}
			r.log.Error(err, "Failed to accept, trying again", "address", l.Addr().String())
			r.clock.Sleep(50 * time.Millisecond)
			continue
		}
		p, overflow := l.strangers.admit(conn, r.slots)
		if overflow {
			r.metrics.refused.Inc()
			if omitted, ok := r.muffler.pass("overflow " + l.Addr().String()); ok {
				r.log.Info("Too many handshakes at once, the oldest gave way", "address", l.Addr().String(), "omitted",
					omitted)
			}
		}
		open.Go(func() {
			defer p.release()
			l.handle(connections, conn.(*net.TCPConn), p)
		})
	}
}

// refuse resets a connection that has shown who it is and for which there is no slot.
func (r *Relay) refuse(conn net.Conn, p *permit) {
	defer wire.Reset(conn)
	if p.gaveWay() { // counted when it did
		return
	}
	r.metrics.refused.Inc()
	if omitted, ok := r.muffler.pass("refused"); ok {
		r.log.Info("Refused connection, the limit is reached", "limit", r.config.Limits.MaxConnections, "omitted",
			omitted)
	}
}

// handleNear tunnels a connection of a local dialer to the other seed.
func (r *Relay) handleNear(ctx context.Context, conn *net.TCPConn, p *permit, near config.Near) {
	_ = conn.SetReadDeadline(time.Now().Add(r.config.Limits.HandshakeTimeout.Duration))
	stop := context.AfterFunc(ctx, func() { wire.Reset(conn) })
	hello, err := readName(conn, near.Inner)
	stop()
	if err != nil {
		r.drop(conn, p, stranger{direction: directionNear, err: err})
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	route, found := findNear(near.Routes, hello.ServerName)
	if !found {
		r.drop(conn, p, stranger{directionNear, hello.ServerName, errUnknownServerName})
		return
	}
	if !p.establish() {
		r.refuse(conn, p)
		return
	}
	attempt, pause := r.redials.begin(route.Remote.ServerName)
	if pause > 0 {
		r.metrics.dialFailures.WithLabelValues(directionNear, route.Remote.ServerName).Inc()
		select {
		case <-r.clock.After(pause):
		case <-ctx.Done():
		}
		wire.Reset(conn)
		return
	}
	remote, err := r.dialRemote(ctx, route.Remote)
	if err != nil {
		attempt.failed()
		r.unreachable(directionNear, route.Remote.ServerName, conn, err)
		return
	}
	r.join(ctx, tunnelled{direction: directionNear, route: route.Remote.ServerName, dialer: conn,
		target: attempt.watch(remote), first: hello.Raw})
}

// readName reads the start of a connection up to the name that it asks for.
func readName(conn io.Reader, inner config.Inner) (wire.Hello, error) {
	if inner == config.InnerHTTP {
		return wire.ReadRequest(conn)
	}
	return wire.ReadHello(conn)
}

func findNear(routes []config.NearRoute, serverName string) (config.NearRoute, bool) {
	for _, route := range routes {
		if matchesAny(route.InnerSNI, serverName) {
			return route, true
		}
	}
	return config.NearRoute{}, false
}

func matchesAny(patterns []string, serverName string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return wire.MatchServerName(pattern, serverName) })
}

func (r *Relay) dialRemote(ctx context.Context, remote config.Remote) (*tls.Conn, error) {
	raw, err := r.dialer.DialContext(ctx, "tcp",
		net.JoinHostPort(absolute(remote.Host), strconv.Itoa(int(remote.Port))))
	if err != nil {
		return nil, err
	}
	outer, err := r.outer.dialing(remote.ServerName)
	if err != nil {
		wire.Reset(raw)
		return nil, err
	}
	conn := tls.Client(raw, outer)
	handshake, cancel := context.WithTimeout(ctx, r.config.Limits.HandshakeTimeout.Duration)
	defer cancel()
	if err := conn.HandshakeContext(handshake); err != nil {
		forget(outer)
		r.metrics.handshakeFailures.WithLabelValues(directionNear, cause(err)).Inc()
		wire.Reset(raw)
		return nil, fmt.Errorf("failed to complete the handshake with the other relay: %w", err)
	}
	r.metrics.handshake(directionNear, conn)
	return conn, nil
}

// absolute saves the look-ups of the pod's search list, which public names would go through first.
func absolute(host string) string {
	if net.ParseIP(host) != nil || strings.HasSuffix(host, ".") {
		return host
	}
	return host + "."
}

// handleFar hands a connection of the other seed's relay to its local target.
func (r *Relay) handleFar(ctx context.Context, raw *net.TCPConn, p *permit) {
	conn := tls.Server(raw, r.outer.dialed())
	deadline := time.Now().Add(r.config.Limits.HandshakeTimeout.Duration)
	handshake, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := conn.HandshakeContext(handshake); err != nil {
		r.drop(raw, p, stranger{directionFar, conn.ConnectionState().ServerName, err})
		return
	}
	r.metrics.handshake(directionFar, conn)
	route, _ := r.findFar(conn.ConnectionState().ServerName)

	// The other relay has read the same name before it dialed. Whoever got hold of a relay's certificate has not: he
	// gets no further than a TLS handshake with the very target that the route is for.
	_ = conn.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { wire.Reset(raw) })
	hello, err := readName(conn, route.Inner)
	stop()
	if err != nil {
		r.drop(raw, p, stranger{directionFar, route.ServerName, err})
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if !matchesAny(route.InnerSNI, hello.ServerName) {
		r.drop(raw, p, stranger{directionFar, hello.ServerName, errUnknownServerName})
		return
	}
	if !p.establish() {
		r.refuse(raw, p)
		return
	}
	target, err := r.dialer.DialContext(ctx, "tcp", route.Target)
	if err != nil {
		r.unreachable(directionFar, route.ServerName, conn, err)
		return
	}
	r.join(ctx, tunnelled{direction: directionFar, route: route.ServerName, dialer: conn, target: target.(*net.TCPConn),
		first: hello.Raw})
}

func (r *Relay) findFar(serverName string) (config.FarRoute, bool) {
	serverName = wire.Canonical(serverName)
	for _, route := range r.config.Far.Routes {
		if wire.MatchServerName(route.ServerName, serverName) {
			return route, true
		}
	}
	return config.FarRoute{}, false
}

// tunnelled is a connection and its target.
type tunnelled struct {
	// direction and route say which way it goes.
	direction, route string
	dialer, target   wire.Conn
	// first are bytes that were read from the dialer already.
	first []byte
}

// reset ends both sides at once.
func (t tunnelled) reset() {
	wire.Reset(t.dialer)
	wire.Reset(t.target)
}

// join passes bytes on until both sides are done.
func (r *Relay) join(ctx context.Context, t tunnelled) {
	r.recovered(t.direction, t.route)
	r.metrics.connections.WithLabelValues(t.direction, t.route).Inc()
	gauge := r.metrics.openConnections.WithLabelValues(t.direction, t.route)
	gauge.Inc()
	defer gauge.Dec()
	sent, received := r.metrics.bytes.WithLabelValues("sent", t.direction, t.route),
		r.metrics.bytes.WithLabelValues("received", t.direction, t.route)
	log := r.log.WithValues("direction", t.direction, "route", t.route, "dialer", t.dialer.RemoteAddr().String())
	log.V(1).Info("Joined connection")

	defer context.AfterFunc(ctx, t.reset)()
	if len(t.first) > 0 {
		if _, err := t.target.Write(t.first); err != nil {
			log.V(1).Info("Connection ended with an error", "reason", err.Error())
			t.reset()
			return
		}
		sent.Add(float64(len(t.first)))
	}
	err := wire.Join(t.dialer, t.target, func(n int) { sent.Add(float64(n)) },
		func(n int) { received.Add(float64(n)) })
	if err != nil {
		log.V(1).Info("Connection ended with an error", "reason", err.Error())
		return
	}
	log.V(1).Info("Connection ended")
}

// stranger is what is known of a connection that is not to be served.
type stranger struct {
	direction string
	// serverName is what it asked for; empty if it did not get that far.
	serverName string
	// err tells why it is not served.
	err error
}

// drop ends a connection that is not to be served.
func (r *Relay) drop(conn net.Conn, p *permit, s stranger) {
	defer wire.Reset(conn)
	if p.gaveWay() { // counted when it did; the error is our own reset
		return
	}
	why := cause(s.err)
	r.metrics.handshakeFailures.WithLabelValues(s.direction, why).Inc()
	log := r.log.WithValues("direction", s.direction, "peer", conn.RemoteAddr().String(), "serverName", s.serverName,
		"cause", why)
	if why == causeClosed { // probes and port scans; the metric has them
		log.V(1).Info("Dropped connection", "reason", s.err.Error())
		return
	}
	if omitted, ok := r.muffler.pass(s.direction + " " + why); ok {
		log.Info("Dropped connection", "reason", s.err.Error(), "omitted", omitted)
	}
}

// unreachable resets a connection whose target cannot be had, so that its dialer tries another address at once. etcd
// tries several times per second, hence one log line per outage.
func (r *Relay) unreachable(direction, route string, conn net.Conn, err error) {
	r.metrics.dialFailures.WithLabelValues(direction, route).Inc()
	wire.Reset(conn)
	if r.failing(direction, route).CompareAndSwap(false, true) {
		r.log.Info("Target became unreachable", "direction", direction, "route", route, "reason", err.Error())
	}
}

func (r *Relay) recovered(direction, route string) {
	if r.failing(direction, route).CompareAndSwap(true, false) {
		r.log.Info("Target is reachable again", "direction", direction, "route", route)
	}
}

func (r *Relay) failing(direction, route string) *atomic.Bool {
	state, _ := r.routes.LoadOrStore(direction+"/"+route, &atomic.Bool{})
	return state.(*atomic.Bool)
}

// notReady says why dialers are not to come here; empty if they are.
func (r *Relay) notReady() string {
	if !r.serving.Load() {
		return "not serving"
	}
	return ""
}
