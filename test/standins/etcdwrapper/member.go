// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const (
	readinessInterval = 2 * time.Second
	readinessTimeout  = 5 * time.Second
)

// member is the embedded etcd and what is served beside it.
type member struct {
	log    *slog.Logger
	opts   options
	config *embed.Config
	// tls is that of the configuration, which etcd writes to while it starts.
	tls   transport.TLSInfo
	ready atomic.Bool
}

// stopVariable names the environment variable that lets a member stop as real ones do not: with the value graceful it
// answers what is in flight. Other values change nothing.
const stopVariable = "STANDIN_STOP"

// gracefulHTTPPort is where etcd's HTTP endpoints are then, on the loopback interface.
const gracefulHTTPPort = 9096

// newMember parses the configuration by way of a file, the only form that etcd reads, and changes nothing in it, except
// for what stopVariable asks.
func newMember(log *slog.Logger, opts options, folder, configuration string) (*member, error) {
	file := filepath.Join(folder, "etcd.conf.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		return nil, fmt.Errorf("failed to write the etcd configuration file: %w", err)
	}
	config, err := embed.ConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to parse the etcd configuration: %w", err)
	}
	if os.Getenv(stopVariable) == "graceful" {
		serveGRPCAlone(config)
	}
	log.Info("etcd configuration", "name", config.Name, "initialCluster", config.InitialCluster, "initialClusterState",
		config.ClusterState)
	return &member{log: log, opts: opts, config: config, tls: config.ClientTLSInfo}, nil
}

// serveGRPCAlone moves etcd's HTTP endpoints (/health, /metrics) off the client port. With both on one port and TLS,
// etcd 3.5.27 runs gRPC inside net/http, and serveCtx.serve (server/embed/serve.go) stops the gRPC server as soon as
// the listener is closed, whatever net/http waits for. gRPC on a port of its own is stopped gracefully.
func serveGRPCAlone(config *embed.Config) {
	if len(config.ListenClientUrls) == 0 || len(config.ListenClientHttpUrls) > 0 {
		return
	}
	config.ListenClientHttpUrls = []url.URL{
		{Scheme: config.ListenClientUrls[0].Scheme, Host: fmt.Sprintf("127.0.0.1:%d", gracefulHTTPPort)},
	}
}

// run serves etcd until the context ends or etcd stops by itself. In the end the probes go first, then the client, then
// etcd as Etcd.Close does it (server/embed/etcd.go of etcd 3.5.27): with TLS, gRPC and HTTP are on one listener, whose
// HTTP server has seven seconds to shut down, and then gRPC is stopped without grace. Leadership moves after that.
func (m *member) run(ctx context.Context, stop context.CancelFunc, exit exitMarker) error {
	syscall.Umask(0o077)
	if err := restrictFiles(m.config.Dir); err != nil {
		return err
	}
	client, err := m.newClient(ctx)
	if err != nil {
		return err
	}
	var etcd *embed.Etcd
	defer func() {
		client.Close()
		if etcd != nil {
			etcd.Close()
		}
		stop()
	}()
	go m.observeReadiness(ctx, client)
	server := m.newServer(stop)
	defer server.Close()
	go m.serve(server)

	if etcd, err = m.start(); err != nil {
		return err
	}
	if err := exit.remove(); err != nil {
		m.log.Error("failed to remove the record of the last exit", "error", err)
	}
	select {
	case <-ctx.Done():
		m.log.Info("stopping etcd")
	case <-etcd.Server.StopNotify():
		m.log.Error("etcd stopped by itself")
	case err := <-etcd.Err():
		m.log.Error("etcd failed", "error", err)
	}
	return nil
}

// restrictFiles takes the files below a folder, which need not exist, away from everybody but their owner.
func restrictFiles(folder string) error {
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
	if _, statErr := os.Stat(folder); errors.Is(statErr, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to change the mode of the files in %q: %w", folder, err)
	}
	return nil
}

// start returns when etcd has been started. Whether it is ready is for the probe to say: etcd-druid sets no time for
// it, so that there is no wait at all, and what takes longer than the time is only logged. A signal does not interrupt
// a start.
func (m *member) start() (*embed.Etcd, error) {
	etcd, err := embed.StartEtcd(m.config)
	if err != nil {
		return nil, fmt.Errorf("failed to start etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		m.log.Info("etcd is ready to serve clients")
	case <-etcd.Server.StopNotify():
		m.log.Error("etcd stopped while it was starting")
	case <-time.After(m.opts.etcdReadyTimeout):
		m.log.Info("etcd is not ready yet")
	}
	return etcd, nil
}

// tlsEnabled tells whether clients use TLS: only with certificate, key and CA.
func (m *member) tlsEnabled() bool {
	return m.tls.CertFile != "" && m.tls.KeyFile != "" && m.tls.TrustedCAFile != ""
}

func (m *member) newClient(ctx context.Context) (*clientv3.Client, error) {
	config := clientv3.Config{
		Context:     ctx,
		DialTimeout: readinessTimeout,
		Endpoints:   []string{fmt.Sprintf("http://%s:%d", m.opts.etcdServerName, m.opts.etcdClientPort)},
		Logger:      zap.NewNop(), // the readiness loop logs its own findings once per change
	}
	if m.tlsEnabled() {
		roots, err := certPool(m.tls.TrustedCAFile)
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

// observeReadiness asks with a linearizable read, so a member without quorum, or a learner, is not ready. An answer is
// asked for every two seconds, however long the one before took.
func (m *member) observeReadiness(ctx context.Context, client *clientv3.Client) {
	ticker := time.NewTicker(readinessInterval)
	defer ticker.Stop()
	for {
		getCtx, cancel := context.WithTimeout(ctx, readinessTimeout)
		_, err := client.Get(getCtx, "foo")
		cancel()
		if m.ready.Swap(err == nil) != (err == nil) {
			m.log.Info("readiness changed", "ready", err == nil, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// newServer serves the probe and the stop request, and nothing else. Requests to stop by another verb than POST are
// answered with 200 and have no effect.
func (m *member) newServer(stop context.CancelFunc) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !m.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/stop", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		m.log.Info("received stop request")
		stop()
		w.WriteHeader(http.StatusOK)
	})
	return &http.Server{Addr: fmt.Sprintf(":%d", m.opts.wrapperPort), Handler: mux, ReadHeaderTimeout: readinessTimeout}
}

// serve serves with etcd's server certificate and asks clients for none. A port that cannot be had ends the process.
func (m *member) serve(server *http.Server) {
	var err error
	if m.tlsEnabled() {
		err = server.ListenAndServeTLS(m.tls.CertFile, m.tls.KeyFile)
	} else {
		err = server.ListenAndServe()
	}
	if !errors.Is(err, http.ErrServerClosed) {
		m.log.Error("failed to serve probes", "error", err)
		os.Exit(1)
	}
}
