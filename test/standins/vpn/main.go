// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command vpn stands in for the programs of the pods of vpn-seed-server, whose images are not available: for the VPN
// server, and, when it is called envoy, for the proxy beside it. The pods, their Service, certificates and probes are
// those that Gardener makes. A kube-apiserver asks the proxy (HTTP CONNECT over TLS) for an address in the shoot, and
// the server opens it through the tunnel of the client in the shoot (see package tunnel, and test/standins/machine for
// the client). Only the VPN without high availability is stood in for: the highly available one needs routes in the
// pods of kube-apiserver.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gardener/gardener/pkg/logger"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/livecpm/livecpm/test/standins/accept"
	"github.com/livecpm/livecpm/test/standins/vpn/tunnel"
)

// The ports and folders are those of Gardener's pods; inside is between the two programs of a pod.
const (
	tunnelAddress = ":1194"
	proxyAddress  = ":9443"
	inside        = "127.0.0.1:1195"
	serverCerts   = "/srv/secrets/vpn-server"
	proxyCerts    = "/srv/secrets/envoy-proxy"
)

func main() {
	log := logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, log, filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
		log.Error(err, "Failed")
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, log logr.Logger, name string, args []string) error {
	if name == "envoy" {
		return serveProxy(ctx, log)
	}
	if len(args) == 0 {
		return serveTunnel(ctx, log)
	}
	switch args[0] {
	case "setup":
		return nil // routes and interfaces are OpenVPN's
	case "liveness":
		return ask(ctx, "http://"+inside+"/livez")
	case "readiness":
		return ask(ctx, "http://"+inside+"/readyz")
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// ask is what the probes run.
func ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// certificates reads those of a folder each time again.
func certificates(folder string) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		var files [3][]byte
		for i, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
			content, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return nil, fmt.Errorf("failed to read certificates: %w", err)
			}
			files[i] = content
		}
		return tunnel.TLSConfig(files[0], files[1], files[2])
	}
}

func serveTunnel(ctx context.Context, log logr.Logger) error {
	server := &tunnel.Server{Log: log}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", tunnelAddress)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	local := &http.Server{Addr: inside, Handler: server, ReadHeaderTimeout: 10 * time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, listener, certificates(serverCerts)) })
	group.Go(func() error {
		defer context.AfterFunc(ctx, func() { _ = local.Close() })()
		if err := local.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("failed to serve the proxy: %w", err)
		}
		return nil
	})
	log.Info("Serving", "tunnel", tunnelAddress)
	return group.Wait()
}

// serveProxy takes off TLS and leaves the rest to the VPN server.
func serveProxy(ctx context.Context, log logr.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", proxyAddress)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	log.Info("Serving", "proxy", proxyAddress)
	return frontProxy{log: log, config: certificates(proxyCerts), server: inside}.accept(ctx, listener)
}

// frontProxy takes off TLS before the VPN server.
type frontProxy struct {
	log logr.Logger
	// config reads the certificates.
	config func() (*tls.Config, error)
	// server is the address of the VPN server.
	server string
}

// accept passes on what the listener accepts until the context ends.
func (p frontProxy) accept(ctx context.Context, listener net.Listener) error {
	return accept.Each(ctx, listener, func(conn net.Conn) {
		go func() {
			defer func() { _ = conn.Close() }()
			if err := p.pass(ctx, conn); err != nil && !errors.Is(err, io.EOF) {
				p.log.V(1).Info("Connection ended", "reason", err.Error())
			}
		}()
	})
}

func (p frontProxy) pass(ctx context.Context, conn net.Conn) error {
	settings, err := p.config()
	if err != nil {
		return err
	}
	secured := tls.Server(conn, settings)
	handshake, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// Probes connect and say nothing.
	if err := secured.HandshakeContext(handshake); err != nil {
		return err
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return fmt.Errorf("failed to reach the VPN server: %w", err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, secured)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(secured, server)
	return err
}
