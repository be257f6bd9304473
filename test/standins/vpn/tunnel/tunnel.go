// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel is the protocol between the landscape's stand-ins for the VPN server of a seed and its client in a
// shoot. The real ones are OpenVPN and need images that are not available. As with them, the client connects (through
// the ingress gateway, by HTTP CONNECT), both sides prove who they are by certificates of the shoot's VPN CA, and
// connections are then opened from the seed into the shoot. Each of them is a stream of HTTP/2, in which the client
// serves and the server asks.
package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http2"
)

const (
	// dialTimeout bounds connecting: to the gateway, to the server through it, and to an address in the shoot.
	dialTimeout = 10 * time.Second
	// pingInterval is how long a silent tunnel is taken for alive, pingTimeout how long an answer may take then.
	pingInterval = 5 * time.Second
	pingTimeout  = 10 * time.Second
	// maxStreams is how many connections a tunnel carries at the same time.
	maxStreams = 1000
)

// TLSConfig returns the configuration for one side of a tunnel, which only takes partners whose certificate the CA has
// signed.
func TLSConfig(ca, certificate, key []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("failed to read certificate and key: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("failed to read the CA: it has no certificate in PEM")
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

// Client is the side in the shoot.
type Client struct {
	// Gateway is host and port of the ingress gateway.
	Gateway string
	// Header and Destination tell the gateway where to, as Gardener's clients do.
	Header, Destination string
	// TLS is the configuration of TLSConfig. ServerName has to be set.
	TLS *tls.Config
	// Dial opens connections in the shoot.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Connected, when set, is told when the tunnel stands.
	Connected func()
}

// Run opens the tunnel and serves it until it ends. Its error is never nil.
func (c *Client) Run(ctx context.Context) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if c.Connected != nil {
		c.Connected()
	}
	server := &http2.Server{MaxConcurrentStreams: maxStreams, ReadIdleTimeout: pingInterval, PingTimeout: pingTimeout}
	server.ServeConn(conn, &http2.ServeConnOpts{Context: ctx, Handler: http.HandlerFunc(c.serve)})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("the tunnel ended")
}

func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp", c.Gateway)
	if err != nil {
		return nil, fmt.Errorf("failed to dial the gateway: %w", err)
	}
	established, err := c.pass(ctx, conn)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return established, nil
}

// pass goes through the gateway and greets the server.
func (c *Client) pass(ctx context.Context, conn net.Conn) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("failed to set deadline: %w", err)
	}
	// The server speaks after the client: nothing that follows the answer can be in the buffer.
	if _, err := Ask(conn, c.Gateway, http.Header{c.Header: {c.Destination}}); err != nil {
		return nil, fmt.Errorf("%w for %s", err, c.Destination)
	}
	secured := tls.Client(conn, c.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("failed to greet the VPN server: %w", err)
	}
	return secured, secured.SetDeadline(time.Time{})
}

// Ask asks an ingress gateway by HTTP CONNECT to be led on. The header says where to. What follows the gateway's answer
// comes from the reader.
func Ask(conn net.Conn, authority string, header http.Header) (io.Reader, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: authority}, Host: authority,
		Header: header}
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("failed to ask the gateway: %w", err)
	}
	buffered := bufio.NewReader(conn)
	response, err := http.ReadResponse(buffered, request)
	if err != nil {
		return nil, fmt.Errorf("failed to read the gateway's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the gateway answered %s", response.Status)
	}
	return buffered, nil
}

// serve opens the connection that a stream is for.
func (c *Client) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT is served", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialTimeout)
	target, err := c.Dial(ctx, "tcp", r.Host)
	cancel()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = target.Close() }()
	defer context.AfterFunc(r.Context(), func() { _ = target.Close() })()
	controller := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	if err := controller.Flush(); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(target, r.Body)
		closeWrite(target)
	}()
	_, _ = io.Copy(flushed{w, controller}, target)
}

// flushed sends what is written at once.
type flushed struct {
	io.Writer
	controller *http.ResponseController
}

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.controller.Flush()
	}
	return n, err
}

func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
