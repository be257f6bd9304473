// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/cli/dashboard"
	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

// serving returns a dashboard that has looked once.
func serving(look dashboard.Look) *dashboard.Server {
	GinkgoHelper()
	server := &dashboard.Server{Clock: testclock.NewFakeClock(look.Now.Time),
		Read: func(context.Context) (dashboard.Look, error) { return look, nil }}
	Expect(server.Look(context.Background())).To(Succeed())
	return server
}

// ask asks the dashboard, which listens at the loopback address.
func ask(server *dashboard.Server, method, host, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, nil)
	request.Host = host
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
	request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, net.Addr(local)))
	out := httptest.NewRecorder()
	server.Handler().ServeHTTP(out, request)
	return out
}

func get(server *dashboard.Server, path string) *httptest.ResponseRecorder {
	return ask(server, http.MethodGet, "127.0.0.1:4711", path)
}

var _ = Describe("Server", func() {
	It("should let a browser show the page, and nothing else", func() {
		server := serving(world("joining"))
		for _, path := range []string{"/", "/content", "/live.js", "/no-such-page"} {
			header := get(server, path).Header()
			Expect(header.Get("Content-Security-Policy")).To(And(HavePrefix("default-src 'none'; "),
				Not(ContainSubstring("unsafe")), ContainSubstring("frame-ancestors 'none'")), path)
			Expect(header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
			Expect(header.Get("Cache-Control")).To(Equal("no-store"))
			Expect(header.Get("Access-Control-Allow-Origin")).To(BeEmpty())
		}
		page := get(server, "/")
		Expect(page.Code).To(Equal(http.StatusOK))
		sheet := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page.Body.String())
		Expect(page.Header().Get("Content-Security-Policy")).To(ContainSubstring(report.HashOf(sheet[1])))
		Expect(get(server, "/no-such-page").Code).To(Equal(http.StatusNotFound))
		Expect(get(server, "/live.js").Header().Get("Content-Type")).To(HavePrefix("text/javascript"))
	})

	It("should say how long it still takes, and how long the step is expected to", func() {
		look := world("joining")
		Expect(get(serving(look), "/content").Body.String()).To(And(ContainSubstring("(35s of 20m)"),
			Not(ContainSubstring(" left</span>"))))
		look.Expected = expected.Of(summary.Summarize(look.Shoot, look.Now.Time), expected.Facts{TTL: 30 * time.Second},
			look.Now.Time)
		Expect(get(serving(look), "/content").Body.String()).To(And(ContainSubstring("(35s of ~55s)"),
			ContainSubstring(`<span class="num">~11m left</span>`)))
	})

	It("should write points in time in its zone, and name it", func() {
		look := world("joining")
		look.Events = []corev1.Event{{Reason: "Some", Message: "event", LastTimestamp: metav1.NewTime(
			look.Now.Add(-time.Second))}}
		server := serving(look)
		Expect(get(server, "/content").Body.String()).To(And(ContainSubstring("As of 2026-11-20 09:00:41 UTC."),
			ContainSubstring(`<th class="optional">UTC</th>`), ContainSubstring(">09:00:40<")))
		server.Zone = time.FixedZone("CEST", 2*60*60)
		Expect(server.Look(context.Background())).To(Succeed())
		Expect(get(server, "/content").Body.String()).To(And(ContainSubstring("As of 2026-11-20 11:00:41 CEST."),
			ContainSubstring(`<th class="optional">CEST</th>`), ContainSubstring(">11:00:40<"),
			Not(ContainSubstring("UTC"))))
	})

	It("should only read", func() {
		server := serving(world("joining"))
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
			http.MethodOptions, http.MethodConnect, http.MethodTrace} {
			for _, path := range []string{"/", "/content", "/events"} {
				answer := ask(server, method, "127.0.0.1:4711", path)
				Expect(answer.Code).To(Equal(http.StatusMethodNotAllowed), method)
				Expect(answer.Header().Get("Allow")).To(Equal("GET, HEAD"))
			}
		}
		Expect(ask(server, http.MethodHead, "127.0.0.1:4711", "/events").Code).To(Equal(http.StatusOK))
	})

	It("should not answer who was led to it by a foreign name", func() {
		server := serving(world("joining"))
		for _, path := range []string{"/", "/content", "/events", "/live.js"} {
			answer := ask(server, http.MethodGet, "evil.example:4711", path)
			Expect(answer.Code).To(Equal(http.StatusMisdirectedRequest))
			Expect(answer.Body.String()).NotTo(ContainSubstring("garden-demo"))
		}
	})

	DescribeTable("should know the names of its own address", func(listens, host string, expected bool) {
		Expect(dashboard.OwnHost(host, &net.TCPAddr{IP: net.ParseIP(listens), Port: 80})).To(Equal(expected))
	},
		Entry("its address", "127.0.0.1", "127.0.0.1:80", true),
		Entry("without a port", "127.0.0.1", "127.0.0.1", true),
		Entry("localhost", "127.0.0.1", "localhost:80", true),
		Entry("behind a forwarding of ports", "127.0.0.1", "localhost:8080", true),
		Entry("the other loopback address", "::1", "127.0.0.1:80", true),
		Entry("IPv6", "::1", "[::1]:80", true),
		Entry("an address that a mapped one is", "::ffff:127.0.0.1", "127.0.0.1:80", true),
		Entry("a name that leads here", "127.0.0.1", "evil.example:80", false),
		Entry("a name that begins like it", "127.0.0.1", "127.0.0.1.evil.example", false),
		Entry("a name below localhost", "127.0.0.1", "a.localhost", false),
		Entry("nothing", "127.0.0.1", "", false),
		Entry("another address", "127.0.0.1", "10.0.0.1:80", false),
		Entry("its address in a network", "10.0.0.1", "10.0.0.1:80", true),
		Entry("localhost, where it is not", "10.0.0.1", "localhost:80", false),
		Entry("a loopback address, where it is not", "10.0.0.1", "127.0.0.1:80", false),
	)

	It("should not know its own address where there is none", func() {
		Expect(dashboard.OwnHost("localhost", &net.UnixAddr{})).To(BeFalse())
		Expect(dashboard.OwnHost("localhost", nil)).To(BeFalse())
	})

	It("should tell browsers each change, and say on the page when it cannot look any more", func() {
		var problem atomic.Pointer[error]
		look := world("joining")
		clk, ready := testclock.NewFakeClock(look.Now.Time), make(chan struct{})
		read := func(context.Context) (dashboard.Look, error) {
			if err := problem.Load(); err != nil {
				return dashboard.Look{}, *err
			}
			return look, nil
		}
		server := &dashboard.Server{Clock: clk, Ready: func() { close(ready) }, Read: read}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(ctx, listener) }()
		url := "http://" + listener.Addr().String()
		Eventually(ready).Should(BeClosed())
		stream, err := http.Get(url + "/events")
		Expect(err).NotTo(HaveOccurred())
		defer stream.Body.Close()
		Expect(stream.Header.Get("Content-Type")).To(Equal("text/event-stream"))
		news := bufio.NewScanner(stream.Body)
		next := func() string {
			for news.Scan() {
				if line := news.Text(); line != "" {
					return line
				}
			}
			return "the stream has ended"
		}
		Expect(next()).To(Equal(`data: {"version":1,"title":"10 % Processing · live"}`))
		Expect(clk.HasWaiters()).To(BeTrue())
		err = errors.New("the garden does not answer")
		problem.Store(&err)
		clk.Step(dashboard.DefaultInterval)
		Expect(next()).To(HavePrefix(`data: {"version":2,`))
		Expect(get(server, "/content").Body.String()).To(And(
			ContainSubstring("What you see is old: the garden does not answer"),
			ContainSubstring("As of 2026-11-20 09:00:41 UTC")))
		problem.Store(nil)
		clk.Step(dashboard.DefaultInterval)
		Expect(next()).To(HavePrefix(`data: {"version":3,`))
		Expect(get(server, "/content").Body.String()).NotTo(ContainSubstring("What you see is old"))

		cancel()
		Expect(next()).To(Equal("the stream has ended"))
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("should not begin with a shoot that does not exist", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		server := &dashboard.Server{Clock: testclock.NewFakeClock(world("none").Now.Time),
			Read: func(context.Context) (dashboard.Look, error) { return dashboard.Look{}, errors.New("not found") }}
		Expect(server.Serve(context.Background(), listener)).To(MatchError("not found"))
		_, err = net.Dial("tcp", listener.Addr().String())
		Expect(err).To(HaveOccurred())
	})
})
