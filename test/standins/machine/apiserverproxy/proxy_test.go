// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package apiserverproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/standins/machine/apiserverproxy"
)

// gateway answers CONNECT as the ingress gateway does, and then sends back what it is sent, behind a name.
func gateway(name string, status int, asked chan<- *http.Request) string {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				buffered := bufio.NewReader(conn)
				request, err := http.ReadRequest(buffered)
				if err != nil {
					return
				}
				asked <- request
				// In one piece: what comes with the answer belongs to the client.
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d X\r\n\r\n%s:", status, name)
				_, _ = io.Copy(conn, buffered)
			}()
		}
	}()
	return listener.Addr().String()
}

var _ = Describe("Proxy", func() {
	var (
		ctx    context.Context
		asked  chan *http.Request
		config *apiserverproxy.Config
	)

	BeforeEach(func() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.Background())
		DeferCleanup(func() { cancel() })
		asked = make(chan *http.Request, 10)
		config = &apiserverproxy.Config{
			Listen: "127.0.0.1:0", Network: "tcp4", ConnectTimeout: patience.Eventually, Authority: "api.example:443",
			Header: http.Header{"X-Gardener-Destination": {"outbound|443||kube-apiserver.ns.svc.cluster.local"}},
		}
	})

	type running struct {
		address string
		end     context.CancelFunc
		ended   chan error
		ending  chan int
	}
	start := func(config *apiserverproxy.Config) running {
		GinkgoHelper()
		proxyCtx, cancel := context.WithCancel(ctx)
		out := running{end: cancel, ended: make(chan error, 1), ending: make(chan int, 1)}
		listening := make(chan string, 1)
		proxy := &apiserverproxy.Proxy{
			Log: logr.Discard(), Config: config,
			Listening: func(address net.Addr) { listening <- address.String() },
			Ending:    func(connections int) { out.ending <- connections },
		}
		go func() { out.ended <- proxy.Run(proxyCtx) }()
		Eventually(listening).Should(Receive(&out.address))
		return out
	}
	connect := func(address string) *net.TCPConn {
		GinkgoHelper()
		conn, err := net.Dial("tcp", address)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		Expect(conn.SetDeadline(time.Now().Add(patience.Eventually))).To(Succeed())
		return conn.(*net.TCPConn)
	}
	// say sends a text, ends its direction and returns all that comes back.
	say := func(conn *net.TCPConn, text string) string {
		GinkgoHelper()
		_, err := io.WriteString(conn, text)
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.CloseWrite()).To(Succeed())
		answer, err := io.ReadAll(conn)
		Expect(err).NotTo(HaveOccurred())
		return string(answer)
	}
	read := func(conn net.Conn, n int) string {
		GinkgoHelper()
		buffer := make([]byte, n)
		_, err := io.ReadFull(conn, buffer)
		Expect(err).NotTo(HaveOccurred())
		return string(buffer)
	}

	It("should hand connections through the gateway, asked as envoy asks", func() {
		config.Gateway = gateway("one", http.StatusOK, asked)
		proxy := start(config)
		Expect(say(connect(proxy.address), "hello")).To(Equal("one:hello"))
		var request *http.Request
		Expect(asked).To(Receive(&request))
		Expect(request.Method).To(Equal(http.MethodConnect))
		Expect(request.RequestURI).To(Equal("api.example:443"))
		Expect(request.Header.Get("X-Gardener-Destination")).
			To(Equal("outbound|443||kube-apiserver.ns.svc.cluster.local"))
	})

	It("should close what the gateway refuses or nobody answers, once", func() {
		config.Gateway = gateway("one", http.StatusServiceUnavailable, asked)
		proxy := start(config)
		_, err := io.ReadAll(connect(proxy.address))
		Expect(err).NotTo(HaveOccurred())
		Expect(asked).To(HaveLen(1))

		other := *config
		other.Gateway = "127.0.0.1:1"
		answer, err := io.ReadAll(connect(start(&other).address))
		Expect(err).NotTo(HaveOccurred())
		Expect(answer).To(BeEmpty())
	})

	It("should end with all its connections, and say so before", func() {
		config.Gateway = gateway("one", http.StatusOK, asked)
		proxy := start(config)
		conn := connect(proxy.address)
		Expect(read(conn, 4)).To(Equal("one:"))
		proxy.end()
		Eventually(proxy.ended).Should(Receive(BeNil()))
		Expect(proxy.ending).To(Receive(Equal(1)))
		_, err := conn.Read(make([]byte, 1))
		Expect(err).To(HaveOccurred())
		Expect(err).NotTo(MatchError(ContainSubstring("timeout")), "it is closed, not silent")
		_, err = net.Dial("tcp", proxy.address)
		Expect(err).To(HaveOccurred())
	})

	It("should share an address with another one, and leave all to it when it ends", func() {
		config.Gateway = gateway("one", http.StatusOK, asked)
		first := start(config)
		other := *config
		other.Listen, other.Gateway = first.address, gateway("two", http.StatusOK, asked)
		second := start(&other)
		Expect(second.address).To(Equal(first.address))
		first.end()
		Eventually(first.ended).Should(Receive(BeNil()))
		for range 5 {
			Expect(say(connect(first.address), "x")).To(Equal("two:x"))
		}
	})

	It("should tell probes that it is ready, and fail where it cannot listen", func() {
		config.Gateway, config.Ready = "127.0.0.1:1", free()
		proxy := start(config)
		response, err := http.Get("http://" + config.Ready + "/ready")
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		Expect(response.StatusCode).To(Equal(http.StatusOK))
		proxy.end()
		Eventually(proxy.ended).Should(Receive(BeNil()))

		config.Listen = "192.0.2.1:443"
		Expect((&apiserverproxy.Proxy{Log: logr.Discard(), Config: config}).Run(ctx)).
			To(MatchError(ContainSubstring("failed to listen for clients")))
	})
})

// free returns an address at which nobody listens.
func free() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
