// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/livecpm/livecpm/test/demo"
)

var _ = Describe("Streams", func() {
	// kept keeps one stream open until the function has ended it all, and returns what was counted.
	kept := func(
		ctx context.Context, run func(ctx context.Context, attempt int64, answered, end func()) error,
	) demo.StreamReport {
		GinkgoHelper()
		ctx, end := context.WithCancel(ctx)
		defer end()
		var attempts atomic.Int64
		return demo.KeepStream(ctx, func(ctx context.Context, answered func()) error {
			return run(ctx, attempts.Add(1), answered, end)
		})
	}

	It("should count a stream that breaks, and open it again", func(ctx SpecContext) {
		counts := kept(ctx, func(ctx context.Context, attempt int64, answered, end func()) error {
			answered()
			answered()
			if attempt == 3 {
				end()
				<-ctx.Done()
			}
			return io.ErrUnexpectedEOF
		})
		Expect(counts.Opened).To(Equal(3))
		Expect(counts.Broken).To(Equal(2), "the last one was ended by its user")
		Expect(counts.Refused).To(BeZero())
		Expect(counts.Errors).To(HaveEach(ContainSubstring("some to pod-a broke: unexpected EOF")))
	})

	It("should count attempts that fail, and tell when", func(ctx SpecContext) {
		begin := time.Now()
		counts := kept(ctx, func(ctx context.Context, attempt int64, answered, end func()) error {
			switch attempt {
			case 1, 2:
				return errors.New("refused")
			}
			answered()
			end()
			<-ctx.Done()
			return nil
		})
		Expect(counts.Opened).To(Equal(1))
		Expect(counts.Broken).To(BeZero())
		Expect(counts.Refused).To(Equal(2))
		Expect(counts.FirstRefused).To(BeTemporally(">=", begin.Truncate(time.Second)))
		Expect(counts.LastRefused).To(BeTemporally(">", counts.FirstRefused))
		Expect(counts.Errors).To(HaveEach(ContainSubstring("some to pod-a could not be opened: refused")))
	})

	It("should end a stream that is silent, and count the time", func(ctx SpecContext) {
		counts := kept(ctx, func(ctx context.Context, attempt int64, answered, end func()) error {
			answered()
			if attempt == 2 {
				end()
			}
			<-ctx.Done()
			return ctx.Err()
		})
		Expect(counts.Opened).To(Equal(2))
		Expect(counts.Broken).To(Equal(1))
		Expect(counts.Errors).To(ConsistOf(HaveSuffix("no answer in time")))
		Expect(counts.LongestGapMs).To(BeNumerically(">=", demo.StreamPatience.Milliseconds()))
	})

	It("should follow a log at the first try", func(ctx SpecContext) {
		var requests []*http.Request
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests = append(requests, r)
			if len(requests) == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, "one\ntwo\n")
		}))
		defer server.Close()
		shoot, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		Expect(err).NotTo(HaveOccurred())
		Expect(demo.FollowLog(ctx, shoot, "pod-a", func() {})).To(MatchError(ContainSubstring("unable to handle")))
		Expect(requests).To(HaveLen(1))
		lines := 0
		Expect(demo.FollowLog(ctx, shoot, "pod-a", func() { lines++ })).To(MatchError(io.EOF))
		Expect(lines).To(Equal(2))
		Expect(requests[1].URL.String()).To(Equal(
			"/api/v1/namespaces/livecpm-in-cluster-client/pods/pod-a/log?container=client&follow=true"))
	})

	It("should not wait for a connection when its user ends", func(ctx SpecContext) {
		dialing, end := context.WithCancelCause(ctx)
		conn := &connection{closed: make(chan struct{})}
		let := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := demo.Dial(dialing, dialer(func() (httpstream.Connection, error) {
				<-let
				return conn, nil
			}))
			ended <- err
		}()
		end(errors.New("enough"))
		Eventually(ended).Should(Receive(MatchError("enough")))
		close(let)
		Eventually(conn.closed).Should(BeClosed(), "a connection that comes late must not stay")
	})

	Describe("the proxy for WebSockets", func() {
		It("should dial as the access does", func(ctx SpecContext) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Host)
			}))
			defer server.Close()
			access := &rest.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if address != "api.example:443" {
					return nil, errors.New("nobody knows " + address)
				}
				return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			}}
			living, end := context.WithCancel(ctx)
			config, err := demo.ByProxy(living, access)
			Expect(err).NotTo(HaveOccurred())
			Expect(config.Dial).To(BeNil())
			transport := server.Client().Transport.(*http.Transport).Clone()
			transport.Proxy, transport.DisableKeepAlives = config.Proxy, true
			transport.TLSClientConfig.ServerName = "example.com"
			client := &http.Client{Transport: transport}
			get := func(host string) (string, error) {
				response, err := client.Get((&url.URL{Scheme: "https", Host: host}).String())
				if err != nil {
					return "", err
				}
				defer func() { _ = response.Body.Close() }()
				content, err := io.ReadAll(response.Body)
				return string(content), err
			}
			Expect(get("api.example")).To(Equal("api.example"))
			_, err = get("other.example")
			Expect(err).To(MatchError(ContainSubstring("Bad Gateway")))
			end()
			Eventually(func() error { _, err := get("api.example"); return err }).
				Should(MatchError(ContainSubstring("refused")))
		})
	})
})

// dialer is a function that opens a connection.
type dialer func() (httpstream.Connection, error)

func (d dialer) Dial(protocols ...string) (httpstream.Connection, string, error) {
	conn, err := d()
	return conn, protocols[0], err
}

// connection tells when it was closed.
type connection struct {
	httpstream.Connection
	closed chan struct{}
}

func (c *connection) Close() error {
	close(c.closed)
	return nil
}
