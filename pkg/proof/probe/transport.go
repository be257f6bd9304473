// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// connectionStats counts what happens below HTTP and what a client's own reconnect hides from its caller.
type connectionStats struct {
	// dials counts attempts to connect to an address.
	dials atomic.Int64
	// dialErrors counts failed lookups and failed attempts to connect.
	dialErrors atomic.Int64
	// handshakeErrors counts TLS handshakes that failed.
	handshakeErrors atomic.Int64
	// lost counts connections that ended by an error, or by whatever cause while a request was on them.
	lost atomic.Int64
	// resent counts requests that net/http silently sent again on another connection.
	resent atomic.Int64
	// deferred counts answers that asked to send the request again later (Retry-After), as a kube-apiserver that shuts
	// down gives them. client-go would obey by itself.
	deferred atomic.Int64
	// closing is set once the probe itself tears its connections down. Nothing is counted from then on.
	closing atomic.Bool

	// note, when set, is told about each error.
	note func(kind string, err error)
}

func (s *connectionStats) errors() int64 {
	return s.dialErrors.Load() + s.handshakeErrors.Load() + s.lost.Load() + s.resent.Load() + s.deferred.Load()
}

func (s *connectionStats) count(counter *atomic.Int64, kind string, err error) {
	if s.closing.Load() {
		return
	}
	counter.Add(1)
	if s.note != nil {
		s.note(kind, err)
	}
}

// trackedConn notices when a connection ends by other hands than ours.
type trackedConn struct {
	net.Conn
	stats    *connectionStats
	closed   atomic.Bool
	lostOnce sync.Once
}

func (c *trackedConn) lost(err error) {
	c.lostOnce.Do(func() { c.stats.count(&c.stats.lost, "connection lost", err) })
}

// Read passes through. The plain end of an idle connection is no error: servers close what nobody uses.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed(err)
	}
	return n, err
}

func (c *trackedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.failed(err)
	}
	return n, err
}

func (c *trackedConn) failed(err error) {
	if !c.closed.Load() && !errors.Is(err, net.ErrClosed) {
		c.lost(err)
	}
}

func (c *trackedConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// dialer connects to the addresses that lookup gives for a host.
type dialer struct {
	stats  *connectionStats
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// single gives every request a connection of its own.
	single bool
}

func (d *dialer) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}

	addresses := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		addresses = append(addresses, ip)
	} else if addresses, err = d.lookup(ctx, host); err != nil {
		d.stats.count(&d.stats.dialErrors, "lookup", err)
		return nil, err
	}

	plain := net.Dialer{Timeout: 5 * time.Second}
	var errs []error
	for _, ip := range addresses {
		d.stats.dials.Add(1)
		conn, err := plain.DialContext(ctx, network, net.JoinHostPort(ip.String(), port))
		if err != nil {
			d.stats.count(&d.stats.dialErrors, "dial", err)
			errs = append(errs, err)
			continue
		}
		return &trackedConn{Conn: conn, stats: d.stats}, nil
	}
	return nil, errors.Join(errs...)
}

// tracedTransport ties requests to the connections they travel on.
type tracedTransport struct {
	next  http.RoundTripper
	stats *connectionStats
	// single gives every request a connection of its own.
	single bool
}

// RoundTrip sends the request once. net/http may send it again on a fresh connection; the trace sees that.
func (t *tracedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	e := &exchange{stats: t.stats, ctx: req.Context()}
	req = req.Clone(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: e.gotConn,
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.stats.count(&t.stats.handshakeErrors, "handshake", err)
			}
		},
	}))
	req.Close = t.single

	resp, err := t.next.RoundTrip(req)
	learn(req, resp, err)
	if err != nil {
		e.end(err)
		return nil, err
	}
	if resp.Header.Get("Retry-After") != "" &&
		(resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError) {
		t.stats.count(&t.stats.deferred, "asked to send again", fmt.Errorf("%s answered %s", req.Method, resp.Status))
	}
	resp.Body = &tracedBody{ReadCloser: resp.Body, exchange: e}
	return resp, nil
}

// exchange is one request and its response.
type exchange struct {
	stats *connectionStats
	ctx   context.Context

	mu   sync.Mutex
	conn *trackedConn
}

func (e *exchange) gotConn(info httptrace.GotConnInfo) {
	conn := info.Conn
	if tlsConn, ok := conn.(*tls.Conn); ok {
		conn = tlsConn.NetConn()
	}

	e.mu.Lock()
	again := e.conn != nil
	e.conn, _ = conn.(*trackedConn)
	e.mu.Unlock()
	if again {
		e.stats.count(&e.stats.resent, "request sent again", errors.New("its first connection was given up"))
	}
}

// end is called with the error that ended the exchange, if any.
func (e *exchange) end(err error) {
	// A caller that gave up, of its own will or by its timeout, learned nothing about the connection.
	if err == nil || errors.Is(err, io.EOF) || e.ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	if conn != nil {
		conn.lost(err)
	}
}

type tracedBody struct {
	io.ReadCloser
	exchange *exchange
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.exchange.end(err)
	}
	return n, err
}

// newRESTClient returns client-go's client for the core API on a transport of its own, with all that client-go
// does by itself: it sends again what the server answered with Retry-After, and nothing else.
func newRESTClient(base *rest.Config, d *dialer) (rest.Interface, error) {
	clientSet, err := newClientSet(base, d)
	if err != nil {
		return nil, err
	}
	return clientSet.CoreV1().RESTClient(), nil
}

func newClientSet(base *rest.Config, d *dialer) (kubernetes.Interface, error) {
	clientSet, err := kubernetes.NewForConfig(clientConfig(base, d))
	if err != nil {
		return nil, fmt.Errorf("failed to create client: %w", err)
	}
	return clientSet, nil
}

// clientConfig returns the configuration of clients on the dialer. They speak protobuf as the components of Kubernetes
// do, which costs both ends less.
func clientConfig(base *rest.Config, d *dialer) *rest.Config {
	config := rest.CopyConfig(base)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.Dial = d.dialContext
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	config.UserAgent = "livecpm-probe"
	config.QPS = -1
	config.RateLimiter = nil
	config.Timeout = 0
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &tracedTransport{next: next, stats: d.stats, single: d.single}
	})
	return config
}
