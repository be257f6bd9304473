// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	livecpmdns "github.com/livecpm/livecpm/pkg/dns"
)

var _ = Describe("NameServers", func() {
	// zone is what the server answers; the server reads it on a goroutine of its own.
	type zone struct {
		rcode   int
		records []string
	}
	var (
		ctx     = context.Background()
		content atomic.Pointer[zone]
		server  string
	)

	BeforeEach(func() {
		content.Store(&zone{rcode: dns.RcodeSuccess,
			records: []string{"api.example.org. 120 IN A 10.0.0.2", "api.example.org. 60 IN A 10.0.0.1"}})

		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		server = conn.LocalAddr().String()

		started := make(chan struct{})
		s := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) },
			Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
				now := content.Load()
				response := (&dns.Msg{}).SetRcode(query, now.rcode)
				for _, record := range now.records {
					rr, err := dns.NewRR(record)
					if err == nil && rr.Header().Rrtype == query.Question[0].Qtype &&
						rr.Header().Name == query.Question[0].Name {
						response.Answer = append(response.Answer, rr)
					}
				}
				_ = w.WriteMsg(response)
			})}
		go func() { _ = s.ActivateAndServe() }()
		Eventually(started).Should(BeClosed())
		DeferCleanup(s.Shutdown)
	})

	It("should return sorted values and the longest TTL", func() {
		answers, err := livecpmdns.NewNameServers([]string{server}).Ask(ctx, "api.example.org", "A")
		Expect(err).NotTo(HaveOccurred())
		Expect(answers).To(ConsistOf(livecpmdns.Answer{Server: server, Values: []string{"10.0.0.1", "10.0.0.2"},
			TTL: 2 * time.Minute}))
		silence := livecpmdns.NewSilence(testclock.NewFakeClock(time.Now()), time.Minute)
		Expect(livecpmdns.TTL(ctx, livecpmdns.NewNameServers([]string{server}), silence, "api.example.org")).
			To(Equal(2 * time.Minute))
	})

	It("should return an empty answer for a name that does not exist", func() {
		content.Store(&zone{rcode: dns.RcodeNameError})
		answers, err := livecpmdns.NewNameServers([]string{server}).Ask(ctx, "api.example.org", "A")
		Expect(err).NotTo(HaveOccurred())
		Expect(answers).To(ConsistOf(livecpmdns.Answer{Server: server}))
	})

	It("should say so when a server does not know, because others may be told anything", func() {
		content.Store(&zone{rcode: dns.RcodeServerFailure})
		answers, err := livecpmdns.NewNameServers([]string{server}).Ask(ctx, "api.example.org", "A")
		Expect(err).NotTo(HaveOccurred())
		Expect(answers).To(HaveExactElements(HaveField("Err", MatchError(ContainSubstring("SERVFAIL")))))
	})

	It("should name every server that does not answer, alike each time, and still ask the others", func() {
		var silent []string
		for range 2 {
			// A socket that nobody reads from.
			conn, err := net.ListenPacket("udp", "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(conn.Close)
			silent = append(silent, conn.LocalAddr().String())
		}
		servers := livecpmdns.WithTimeout(livecpmdns.NewNameServers(append(silent, server)), 3*time.Second)
		for range 2 {
			answers, err := servers.Ask(ctx, "api.example.org", "A")
			Expect(err).NotTo(HaveOccurred())
			Expect(answers).To(HaveLen(3))
			for i, address := range silent {
				Expect(answers[i].Server).To(Equal(address))
				Expect(answers[i].Err).To(MatchError("failed to ask name server " + address +
					" for A api.example.org: it did not answer within 3s"))
			}
			Expect(answers[2].Err).NotTo(HaveOccurred())
			Expect(answers[2].Values).To(Equal([]string{"10.0.0.1", "10.0.0.2"}))
		}
	})

	It("should fail for a record type that it does not know", func() {
		_, err := livecpmdns.NewNameServers([]string{server}).Ask(ctx, "api.example.org", "X")
		Expect(err).To(MatchError(ContainSubstring(`unknown record type "X"`)))
	})
})
