// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const (
	// httpPort is where etcd's HTTP endpoints are, on the loopback interface.
	httpPort          = 2382
	readinessInterval = 2 * time.Second
	readinessTimeout  = 5 * time.Second
)

// member is the embedded etcd and what is served beside it.
type member struct {
	log    *slog.Logger
	opts   options
	config *embed.Config
	ready  atomic.Bool
}

// newMember parses the configuration by way of a file, the only form that etcd reads; folder must be writable.
func newMember(log *slog.Logger, opts options, folder, configuration string) (*member, error) {
	file, err := os.CreateTemp(folder, "etcd-*.conf.yaml")
	if err != nil {
		return nil, fmt.Errorf("failed to create the etcd configuration file: %w", err)
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(configuration); err != nil {
		return nil, fmt.Errorf("failed to write the etcd configuration file: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("failed to write the etcd configuration file: %w", err)
	}
	config, err := embed.ConfigFromFile(file.Name())
	if err != nil {
		return nil, fmt.Errorf("failed to parse the etcd configuration: %w", err)
	}
	serveGRPCAlone(config)
	log.Info("etcd configuration", "name", config.Name, "initialCluster", config.InitialCluster, "initialClusterState",
		config.ClusterState)
	return &member{log: log, opts: opts, config: config}, nil
}

// serveGRPCAlone moves etcd's HTTP endpoints (/health, /metrics) off the client port, to the loopback interface. With
// both on one port and TLS, etcd 3.5.27 runs gRPC inside net/http, and serveCtx.serve (server/embed/serve.go) stops the
// gRPC server as soon as the listener is closed: a member that is asked to stop cuts off the requests in flight on it,
// whatever the grace period. gRPC on a port of its own is stopped gracefully. The configuration of etcd-druid does not
// do this.
func serveGRPCAlone(config *embed.Config) {
	if len(config.ListenClientUrls) == 0 || len(config.ListenClientHttpUrls) > 0 {
		return
	}
	config.ListenClientHttpUrls = []url.URL{
		{Scheme: config.ListenClientUrls[0].Scheme, Host: fmt.Sprintf("127.0.0.1:%d", httpPort)},
	}
}

// run serves etcd until the context ends or etcd stops by itself.
func (m *member) run(ctx context.Context, stop context.CancelFunc, exit exitMarker) error {
	syscall.Umask(0o077)
	client, err := m.newClient(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	go m.observeReadiness(ctx, client)
	server := m.newServer(stop)
	defer server.Close()
	go m.serve(server)

	etcd, err := m.start(ctx)
	if err != nil {
		return err
	}
	defer etcd.Close() // hands leadership over before it stops
	if err := exit.remove(); err != nil {
		m.log.Error("failed to remove the record of the last exit", "error", err)
	}
	select {
	case <-ctx.Done():
		m.log.Info("stopping etcd")
		return nil
	case <-etcd.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	case err := <-etcd.Err():
		return fmt.Errorf("etcd failed: %w", err)
	}
}

// start returns when etcd is ready. A joining member may block in StartEtcd until it hears from the others, hence the
// goroutine: a pod that is deleted meanwhile must not wait for that.
func (m *member) start(ctx context.Context) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		etcd, err := embed.StartEtcd(m.config)
		started <- result{etcd, err}
	}()
	var timeout <-chan time.Time
	if m.opts.etcdReadyTimeout > 0 {
		timeout = time.After(m.opts.etcdReadyTimeout)
	}
	var etcd *embed.Etcd
	select {
	case r := <-started:
		if r.err != nil {
			return nil, fmt.Errorf("failed to start etcd: %w", r.err)
		}
		etcd = r.etcd
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-etcd.Server.ReadyNotify():
		m.log.Info("etcd is ready to serve clients")
	case <-etcd.Server.StopNotify():
		m.log.Error("etcd stopped while it was starting")
	case <-ctx.Done():
	case <-timeout:
		etcd.Close()
		return nil, fmt.Errorf("etcd was not ready after %s", m.opts.etcdReadyTimeout)
	}
	return etcd, nil
}

func (m *member) tlsEnabled() bool { return m.config.ClientTLSInfo.CertFile != "" }

func (m *member) newClient(ctx context.Context) (*clientv3.Client, error) {
	config := clientv3.Config{
		Context:     ctx,
		DialTimeout: readinessTimeout,
		Endpoints:   []string{fmt.Sprintf("http://%s:%d", m.opts.etcdServerName, m.opts.etcdClientPort)},
		Logger:      zap.NewNop(), // the readiness loop logs its own findings once per change
	}
	if m.tlsEnabled() {
		roots, err := certPool(m.config.ClientTLSInfo.TrustedCAFile)
		if err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(m.opts.etcdClientCert, m.opts.etcdClientKey)
		if err != nil {
			return nil, fmt.Errorf("failed to load the etcd client certificate: %w", err)
		}
		config.Endpoints = []string{fmt.Sprintf("https://%s:%d", m.opts.etcdServerName, m.opts.etcdClientPort)}
		config.TLS = &tls.Config{RootCAs: roots, ServerName: m.opts.etcdServerName,
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("failed to create the etcd client: %w", err)
	}
	return client, nil
}

// observeReadiness asks with a linearizable read, so a member without quorum, or a learner, is not ready.
func (m *member) observeReadiness(ctx context.Context, client *clientv3.Client) {
	for {
		getCtx, cancel := context.WithTimeout(ctx, readinessTimeout)
		_, err := client.Get(getCtx, "foo")
		cancel()
		if m.ready.Swap(err == nil) != (err == nil) {
			m.log.Info("readiness changed", "ready", err == nil, "error", err)
		}
		if sleep(ctx, readinessInterval) != nil {
			return
		}
	}
}

func (m *member) newServer(stop context.CancelFunc) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !m.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		m.log.Info("received stop request")
		w.WriteHeader(http.StatusOK)
		stop()
	})
	return &http.Server{Addr: fmt.Sprintf(":%d", m.opts.wrapperPort), Handler: mux, ReadHeaderTimeout: readinessTimeout}
}

func (m *member) serve(server *http.Server) {
	var err error
	if m.tlsEnabled() {
		err = server.ListenAndServeTLS(m.config.ClientTLSInfo.CertFile, m.config.ClientTLSInfo.KeyFile)
	} else {
		err = server.ListenAndServe()
	}
	if !errors.Is(err, http.ErrServerClosed) {
		m.log.Error("failed to serve probes", "error", err)
	}
}
