// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package apiserverproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/standins/accept"
	"github.com/livecpm/livecpm/test/standins/vpn/tunnel"
)

// answerTimeout is how long the gateway may take to answer.
const answerTimeout = 15 * time.Second

// Proxy is an envoy of the apiserver-proxy.
type Proxy struct {
	Log    logr.Logger
	Config *Config
	// Listening, when set, is told the address of the listener when clients can connect.
	Listening func(address net.Addr)
	// Ending, when set, is told how many connections are about to be closed because the proxy ends, before any of them
	// is.
	Ending func(connections int)

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
}

// Run serves until the context ends. Then all connections are closed at once, as envoy does it when it is told to end.
func (p *Proxy) Run(ctx context.Context) error {
	// envoy sets SO_REUSEPORT by default: two of them on a node may listen at the same address, and share what comes.
	config := net.ListenConfig{Control: reusePort}
	clients, err := config.Listen(ctx, "tcp", p.Config.Listen)
	if err != nil {
		return fmt.Errorf("failed to listen for clients: %w", err)
	}
	defer func() { _ = clients.Close() }()
	group, ctx := errgroup.WithContext(ctx)
	if p.Config.Ready != "" {
		ready, err := config.Listen(ctx, "tcp", p.Config.Ready)
		if err != nil {
			return fmt.Errorf("failed to listen for probes: %w", err)
		}
		group.Go(func() error { return serveReady(ctx, ready) })
	}
	group.Go(func() error { return p.serve(ctx, clients) })
	if p.Listening != nil {
		p.Listening(clients.Addr())
	}
	return group.Wait()
}

func reusePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	if err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); err != nil {
		return err
	}
	return failed
}

func serveReady(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+readyPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("LIVE\n")) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve probes: %w", err)
	}
	return nil
}

func (p *Proxy) serve(ctx context.Context, listener net.Listener) error {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	// Connections end after the one who wants to know why has been told.
	connsCtx, closeConns := context.WithCancel(context.WithoutCancel(ctx))
	defer closeConns()
	defer p.end()
	listening, stopListening := context.WithCancel(context.WithoutCancel(ctx))
	defer stopListening()
	defer context.AfterFunc(ctx, func() {
		p.announce()
		stopListening()
	})()
	return accept.Each(listening, listener, func(conn net.Conn) {
		handlers.Go(func() {
			defer func() { _ = conn.Close() }()
			if !p.keep(conn) {
				return
			}
			defer p.drop(conn)
			if err := p.forward(connsCtx, conn); err != nil && ctx.Err() == nil {
				p.Log.Info("Could not connect", "gateway", p.Config.Gateway, "reason", err.Error())
			}
		})
	})
}

func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	if p.conns == nil {
		p.conns = map[net.Conn]struct{}{}
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func (p *Proxy) announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Ending != nil {
		p.Ending(len(p.conns))
	}
}

func (p *Proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// forward hands one connection through. Its error is that it could not be made; how it ends is the business of both
// sides.
func (p *Proxy) forward(ctx context.Context, client net.Conn) error {
	gateway, answered, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = gateway.Close() }()
	// Who is cut off from the client is done with the gateway, too.
	defer context.AfterFunc(ctx, func() { _ = gateway.Close() })()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, answered)
		closeWrite(client)
	}()
	_, err = io.Copy(gateway, client)
	if err != nil {
		_ = gateway.Close()
	}
	closeWrite(gateway)
	<-back
	return nil
}

// connect asks the gateway for the kube-apiserver. There is one attempt, as in envoy's configuration.
func (p *Proxy) connect(ctx context.Context) (net.Conn, io.Reader, error) {
	conn, err := (&net.Dialer{Timeout: p.Config.ConnectTimeout}).DialContext(ctx, p.Config.Network, p.Config.Gateway)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to dial the gateway: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	answered, err := p.ask(conn)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, answered, nil
}

func (p *Proxy) ask(conn net.Conn) (io.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, fmt.Errorf("failed to set deadline: %w", err)
	}
	answered, err := tunnel.Ask(conn, p.Config.Authority, p.Config.Header)
	if err != nil {
		return nil, err
	}
	return answered, conn.SetDeadline(time.Time{})
}

func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
