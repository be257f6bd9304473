// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"time"

	"github.com/miekg/dns"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/proof/probe"
)

var _ = Describe("DNS", func() {
	var (
		ctx      context.Context
		server   *fakeDNS
		clock    *testclock.FakeClock
		resolver *probe.Resolver
	)

	BeforeEach(func() {
		ctx = context.Background()
		server = newFakeDNS()
		DeferCleanup(server.server.Shutdown)
		clock = testclock.NewFakeClock(time.Now())
		resolver = probe.NewResolver(server.address, clock)
		server.set("api.example.com", "10.0.0.1")
	})

	Describe("Resolver", func() {
		It("should keep an answer as long as its TTL says and no longer", func() {
			lookup := func() string {
				GinkgoHelper()
				addresses, err := resolver.LookupCached(ctx, "api.example.com")
				Expect(err).NotTo(HaveOccurred())
				Expect(addresses).To(HaveLen(1))
				return addresses[0].String()
			}
			Expect(lookup()).To(Equal("10.0.0.1"))
			server.set("api.example.com", "10.0.0.2")
			clock.Step(59 * time.Second)
			Expect(lookup()).To(Equal("10.0.0.1"))
			clock.Step(time.Second)
			Expect(lookup()).To(Equal("10.0.0.2"))
			Expect(server.questions.Load()).To(BeNumerically("==", 2))
		})

		It("should follow aliases", func() {
			server.set("alias.example.com", "api.example.com")
			addresses, ttl, err := resolver.Lookup(ctx, "alias.example.com")
			Expect(err).NotTo(HaveOccurred())
			Expect(addresses[0].String()).To(Equal("10.0.0.1"))
			Expect(ttl).To(Equal(time.Minute))
		})

		It("should tell a missing record from a server in trouble", func() {
			_, _, err := resolver.Lookup(ctx, "nowhere.example.com")
			Expect(err).To(MatchError(probe.ErrNoRecord))
			server.set("empty.example.com")
			_, _, err = resolver.Lookup(ctx, "empty.example.com")
			Expect(err).To(MatchError(probe.ErrNoRecord))
			server.setRcode(dns.RcodeServerFailure)
			_, _, err = resolver.Lookup(ctx, "api.example.com")
			Expect(err).To(MatchError(ContainSubstring("SERVFAIL")))
			Expect(err).NotTo(MatchError(probe.ErrNoRecord))
		})
	})

	It("should ask again when a datagram is lost, and give up in the end", func() {
		server.lost.Store(2)
		_, _, err := probe.NewImpatientResolver(server.address, clock, 2).Lookup(ctx, "api.example.com")
		Expect(err).NotTo(HaveOccurred())
		Expect(server.questions.Load()).To(BeNumerically("==", 3))
		server.lost.Store(100)
		_, _, err = probe.NewImpatientResolver(server.address, clock, 3).Lookup(ctx, "api.example.com")
		Expect(err).To(MatchError(ContainSubstring("i/o timeout")))
		// The server may read them after they were given up. One more would be waited for for as long as tests wait for
		// anything.
		Eventually(server.questions.Load).Should(BeNumerically("==", 6))
		Consistently(server.questions.Load).Should(BeNumerically("==", 6))
	})

	Describe("DNSWatch", func() {
		It("should count each moment without a record once, and note each change", func() {
			watch := probe.NewDNSWatch(resolver, []string{"api.example.com"}, time.Second, clock)
			sample := func() { watch.Sample(ctx, "api.example.com") }

			sample()
			sample()
			Expect(watch.Result().MomentsWithoutRecord).To(BeZero())
			server.set("api.example.com")
			sample()
			sample()
			server.set("api.example.com", "10.0.0.2")
			sample()
			server.setRcode(dns.RcodeServerFailure)
			sample()

			result := watch.Result()
			Expect(result.Samples).To(BeNumerically("==", 6))
			Expect(result.MomentsWithoutRecord).To(BeNumerically("==", 1))
			Expect(result.Unanswered).To(BeNumerically("==", 1))
			Expect(result.Changes).To(HaveExactElements(
				HaveField("Answer", "10.0.0.1"),
				HaveField("Missing", true),
				HaveField("Answer", "10.0.0.2"),
			))
		})
	})
})
