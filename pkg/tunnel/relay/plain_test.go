// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

// Peers of an etcd with one member have no TLS of their own.
var _ = Describe("Relay for connections without TLS", func() {
	var (
		near, far *config.Config
		member    *httptest.Server
		client    *http.Client
	)

	BeforeEach(func() {
		files := newAuthority("relay").write(GinkgoT().TempDir(), outerName)
		member = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Host+" got "+string(body))
		}))
		DeferCleanup(member.Close)
		far = farConfig(files, member.Listener.Addr().String())
		near = nearConfig(files, far.Far.Port)
		near.Near[0].Inner, far.Far.Routes[0].Inner = config.InnerHTTP, config.InnerHTTP
	})

	// run starts both relays.
	run := func() {
		stopNear, stopFar := start(near, clock.RealClock{}), start(far, clock.RealClock{})
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address(near.Near[0].Port))
		}}
		client = &http.Client{Transport: transport}
		DeferCleanup(func() {
			transport.CloseIdleConnections()
			Expect(stopNear()).To(Succeed())
			Expect(stopFar()).To(Succeed())
		})
	}
	post := func(host, body string) (string, error) {
		response, err := client.Post("http://"+host+":2381/raft", "application/protobuf", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		return string(answer), err
	}

	It("should carry requests to the member that they ask for, and keep the connection", func() {
		run()
		for _, body := range []string{"one", strings.Repeat("two", 10_000)} {
			Expect(post(innerName, body)).To(Equal(innerName + ":2381 got " + body))
		}
		Expect(metric(near, `livecpm_relay_connections_total{direction="near",route="`+outerName+`"}`)).To(Equal("1"))
		Expect(metric(far, `livecpm_relay_connections_total{direction="far",route="`+outerName+`"}`)).To(Equal("1"))
	})

	It("should drop who asks for another host, and send nothing to the other seed", func() {
		run()
		_, err := post("etcd-main-0.elsewhere", "")
		Expect(err).To(MatchError(syscall.ECONNRESET))
		Expect(metric(near,
			`livecpm_relay_handshake_failures_total{cause="unknown_server_name",direction="near"}`)).To(Equal("1"))
		Expect(metric(far, `livecpm_relay_connections_total{direction="far",route="`+outerName+`"}`)).
			To(BeElementOf("", "0"))
	})

	It("should drop TLS", func() {
		run()
		_, err := dial(newAuthority("etcd"), near.Near[0].Port, innerName)
		Expect(err).To(HaveOccurred())
		Expect(metric(near, `livecpm_relay_handshake_failures_total{cause="protocol",direction="near"}`)).
			To(Equal("1"))
	})

	It("should let plain connections through to no member that has TLS", func() {
		far.Far.Routes[0].Inner = ""
		run()
		_, err := post(innerName, "")
		Expect(err).To(HaveOccurred())
		Expect(metric(far, `livecpm_relay_handshake_failures_total{cause="not_tls",direction="far"}`)).To(Equal("1"))
	})

	It("should look at the host once more on the far side", func() {
		far.Far.Routes[0].InnerSNI = []string{"etcd-events-0.etcd-events-peer.shoot--demo--live.svc"}
		run()
		_, err := post(innerName, "")
		Expect(err).To(HaveOccurred())
		Expect(metric(far, `livecpm_relay_handshake_failures_total{cause="unknown_server_name",direction="far"}`)).
			To(Equal("1"))
	})
})
