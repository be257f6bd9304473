// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/http2"

	"github.com/livecpm/livecpm/test/standins/accept"
)

// ErrNoTunnel reports that no client is connected.
var ErrNoTunnel = errors.New("no VPN client is connected")

// Server is the side in the seed.
type Server struct {
	Log logr.Logger

	mu      sync.Mutex
	tunnels []*http2.ClientConn // the newest is the last one
}

// Serve accepts tunnels until the context ends. The TLS configuration is asked for with each of them: certificates are
// renewed in place.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config func() (*tls.Config, error)) error {
	return accept.Each(ctx, listener, func(conn net.Conn) {
		go func() {
			if err := s.accept(ctx, conn, config); err != nil {
				s.Log.Info("Refused a tunnel", "remote", conn.RemoteAddr().String(), "reason", err.Error())
				_ = conn.Close()
			}
		}()
	})
}

func (s *Server) accept(ctx context.Context, conn net.Conn, config func() (*tls.Config, error)) error {
	settings, err := config()
	if err != nil {
		return err
	}
	secured := tls.Server(conn, settings)
	handshake, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := secured.HandshakeContext(handshake); err != nil {
		return fmt.Errorf("failed to greet the client: %w", err)
	}
	transport := &http2.Transport{ReadIdleTimeout: pingInterval, PingTimeout: pingTimeout}
	tunnel, err := transport.NewClientConn(secured)
	if err != nil {
		return fmt.Errorf("failed to begin HTTP/2: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tunnels = append(s.living(), tunnel)
	s.Log.Info("The tunnel is established", "remote", conn.RemoteAddr().String(), "client",
		secured.ConnectionState().PeerCertificates[0].Subject.CommonName, "tunnels", len(s.tunnels))
	return nil
}

// living returns the tunnels that have not ended. The mutex must be held.
func (s *Server) living() []*http2.ClientConn {
	return slices.DeleteFunc(
		slices.Clone(s.tunnels), func(tunnel *http2.ClientConn) bool { return tunnel.State().Closed })
}

// Ready reports whether a client is connected.
func (s *Server) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tunnels = s.living()
	return len(s.tunnels) > 0
}

// newest returns the tunnel that was opened last: an older one may be of a client that is gone without having said so.
func (s *Server) newest() (*http2.ClientConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tunnels = s.living()
	for _, tunnel := range slices.Backward(s.tunnels) {
		if tunnel.CanTakeNewRequest() {
			return tunnel, nil
		}
	}
	return nil, ErrNoTunnel
}

// Dial opens a connection in the shoot.
func (s *Server) Dial(ctx context.Context, address string) (io.ReadWriteCloser, error) {
	tunnel, err := s.newest()
	if err != nil {
		return nil, err
	}
	body, send := io.Pipe()
	// The stream lives longer than the context of dialing.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	request := (&http.Request{Method: http.MethodConnect, URL: &url.URL{Scheme: "https", Host: address}, Host: address,
		Header: http.Header{}, Body: body}).WithContext(streamCtx)
	response, err := tunnel.RoundTrip(request)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("failed to open a stream for %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		_ = response.Body.Close()
		cancel()
		return nil, fmt.Errorf("the VPN client could not reach %s: %s", address, message)
	}
	return &stream{PipeWriter: send, body: response.Body, cancel: cancel}, nil
}

// stream is a connection in the shoot.
type stream struct {
	*io.PipeWriter
	body   io.ReadCloser
	cancel context.CancelFunc
}

func (s *stream) Read(p []byte) (int, error) { return s.body.Read(p) }

// CloseWrite tells the other side that nothing more comes.
func (s *stream) CloseWrite() error { return s.PipeWriter.Close() }

// Close ends the connection.
func (s *stream) Close() error {
	_ = s.PipeWriter.Close()
	err := s.body.Close()
	s.cancel()
	return err
}

// ServeHTTP answers CONNECT by a connection in the shoot, and /readyz by whether there is a tunnel.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		if r.URL.Path == "/readyz" && !s.Ready() {
			http.Error(w, ErrNoTunnel.Error(), http.StatusServiceUnavailable)
		}
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*dialTimeout)
	defer cancel()
	target, err := s.Dial(ctx, r.Host)
	if err != nil {
		s.Log.Info("Could not connect", "target", r.Host, "reason", err.Error())
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = target.Close() }()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Time{})
	if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(target, buffered)
		_ = target.(*stream).CloseWrite()
	}()
	_, _ = io.Copy(conn, target)
}
