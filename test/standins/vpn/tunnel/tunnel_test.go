// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/pki"
	"github.com/livecpm/livecpm/test/standins/vpn/tunnel"
)

var _ = Describe("Tunnel", func() {
	var (
		ctx     context.Context
		ca      []byte
		client  *tls.Config
		server  *tunnel.Server
		gateway string
		proxy   *url.URL
		asked   chan string
	)

	files := func(authority *pki.CA, name string) *tls.Config {
		GinkgoHelper()
		identity, err := authority.Ensure(name, pki.Request{CommonName: name, DNSNames: []string{name}})
		Expect(err).NotTo(HaveOccurred())
		config, err := tunnel.TLSConfig(ca, read(identity.CertFile), read(identity.KeyFile))
		Expect(err).NotTo(HaveOccurred())
		return config
	}

	BeforeEach(func() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.Background())
		DeferCleanup(cancel)
		authority, err := pki.EnsureCA(GinkgoT().TempDir(), "vpn")
		Expect(err).NotTo(HaveOccurred())
		ca = read(authority.File())
		serving := files(authority, "vpn-seed-server")
		client = files(authority, "vpn-shoot-client")
		client.ServerName = "vpn-seed-server"

		server = &tunnel.Server{Log: logr.Discard()}
		listener := listen()
		go func() {
			defer GinkgoRecover()
			Expect(server.Serve(ctx, listener, func() (*tls.Config, error) { return serving, nil })).To(Succeed())
		}()
		asked = make(chan string, 10)
		gateway = fakeGateway(listener.Addr().String(), asked)
		front := httptest.NewServer(server)
		DeferCleanup(front.Close)
		proxy, err = url.Parse(front.URL)
		Expect(err).NotTo(HaveOccurred())
	})

	connectBy := func(dial func(ctx context.Context, network, address string) (net.Conn, error)) context.CancelFunc {
		GinkgoHelper()
		connected := make(chan struct{})
		clientCtx, cancel := context.WithCancel(ctx)
		DeferCleanup(cancel)
		go func() {
			defer GinkgoRecover()
			Expect((&tunnel.Client{
				Gateway: gateway, Header: "X-Gardener-Destination",
				Destination: "outbound|1194||vpn-seed-server.ns.svc.cluster.local",
				TLS:         client, Dial: dial, Connected: func() { close(connected) },
			}).Run(clientCtx)).NotTo(Succeed())
		}()
		Eventually(connected).Should(BeClosed())
		Eventually(server.Ready).Should(BeTrue())
		return cancel
	}
	connect := func() context.CancelFunc {
		GinkgoHelper()
		return connectBy((&net.Dialer{}).DialContext)
	}

	// through asks a server in the shoot by the way that kube-apiserver goes.
	through := func(target string) (string, error) {
		transport := &http.Transport{Proxy: http.ProxyURL(proxy),
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true} // #nosec G402 -- The test's own server.
		response, err := (&http.Client{Transport: transport}).Get(target)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		return string(content), err
	}

	It("should carry requests into the shoot, many at the same time", func() {
		inside := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat(r.URL.Path, 10000)))
		}))
		DeferCleanup(inside.Close)
		connect()
		Expect(asked).To(Receive(Equal("outbound|1194||vpn-seed-server.ns.svc.cluster.local")))
		var requests sync.WaitGroup
		for i := range 20 {
			requests.Go(func() {
				defer GinkgoRecover()
				path := fmt.Sprintf("/%d", i)
				Expect(through(inside.URL + path)).To(Equal(strings.Repeat(path, 10000)))
			})
		}
		requests.Wait()
	})

	It("should tell what cannot be reached", func() {
		_, err := through("https://127.0.0.1:1")
		Expect(err).To(MatchError(ContainSubstring("Bad Gateway")), "there is no tunnel")
		Expect(server.Ready()).To(BeFalse())
		connect()
		_, err = through("https://127.0.0.1:1")
		Expect(err).To(MatchError(ContainSubstring("Bad Gateway")), "nothing listens there")
	})

	It("should continue by the newest client, and know when there is none", func() {
		inside := httptest.NewTLSServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here")) }))
		DeferCleanup(inside.Close)
		first := connect()
		var dialed atomic.Int32
		second := connectBy(func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		})
		// The client knows of it a moment before the server does. Then it is asked although the first one is still
		// there.
		Eventually(func() (int32, error) {
			_, err := through(inside.URL)
			return dialed.Load(), err
		}).Should(BeNumerically(">", 0))
		first()
		Expect(through(inside.URL)).To(Equal("here"))
		second()
		Eventually(server.Ready).Should(BeFalse())
	})

	It("should refuse a client of another CA", func() {
		stranger, err := pki.EnsureCA(GinkgoT().TempDir(), "other")
		Expect(err).NotTo(HaveOccurred())
		identity, err := stranger.Ensure("x", pki.Request{CommonName: "x"})
		Expect(err).NotTo(HaveOccurred())
		config, err := tunnel.TLSConfig(ca, read(identity.CertFile), read(identity.KeyFile))
		Expect(err).NotTo(HaveOccurred())
		config.ServerName = "vpn-seed-server"
		Expect((&tunnel.Client{Gateway: gateway, Header: "X", Destination: "y", TLS: config,
			Dial: (&net.Dialer{}).DialContext}).Run(ctx)).NotTo(Succeed())
		Expect(server.Ready()).To(BeFalse())
	})
})

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	return listener
}

// fakeGateway answers CONNECT and leads to the address; it tells what was asked for.
func fakeGateway(address string, asked chan<- string) string {
	listener := listen()
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
				asked <- request.Header.Get("X-Gardener-Destination")
				target, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer func() { _ = target.Close() }()
				_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
				go func() { _, _ = io.Copy(target, buffered); _ = target.Close() }()
				_, _ = io.Copy(conn, target)
			}()
		}
	}()
	return listener.Addr().String()
}

var _ = Describe("TLSConfig", func() {
	It("should refuse what is no certificate", func() {
		_, err := tunnel.TLSConfig(nil, []byte("x"), []byte("y"))
		Expect(err).To(MatchError(ContainSubstring("failed to read certificate and key")))
		authority, err := pki.EnsureCA(GinkgoT().TempDir(), "vpn")
		Expect(err).NotTo(HaveOccurred())
		identity, err := authority.Ensure("x", pki.Request{CommonName: "x"})
		Expect(err).NotTo(HaveOccurred())
		_, err = tunnel.TLSConfig(bytes.Repeat([]byte("x"), 3), read(identity.CertFile), read(identity.KeyFile))
		Expect(err).To(MatchError(ContainSubstring("no certificate in PEM")))
	})
})
