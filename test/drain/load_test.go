// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/drain"
)

var _ = Describe("#Problems", func() {
	good := func() *probe.Result {
		return &probe.Result{
			Writes: 200, Reads: 400, WatchEvents: 400,
			Details: &probe.Details{Verified: true, RequestsPerSecond: 6, DNS: &probe.DNSResult{Samples: 100}},
		}
	}

	It("should be none if no client has noticed anything", func() {
		Expect(drain.Problems(map[string]*probe.Result{"x": good(), "y": good()})).To(BeEmpty())
	})

	DescribeTable("should tell of each", func(expected string, change func(*probe.Result)) {
		bad := good()
		change(bad)
		Expect(drain.Problems(map[string]*probe.Result{"x": good(), "y": bad})).To(ConsistOf(expected))
	},
		Entry("a write", "y: 1 writes failed", func(r *probe.Result) { r.WritesFailed = 1 }),
		Entry("a read", "y: 2 reads failed", func(r *probe.Result) { r.ReadsFailed = 2 }),
		Entry("an event", "y: 1 watch events lost", func(r *probe.Result) { r.WatchEventsLost = 1 }),
		Entry("what was acknowledged",
			"y: 1 acknowledged writes lost", func(r *probe.Result) { r.Details.AcknowledgedWritesLost = 1 }),
		Entry("what was acknowledged by etcd-events",
			"y: 1 acknowledged events lost", func(r *probe.Result) { r.Details.AcknowledgedEventsLost = 1 }),
		Entry("DNS", "y: 1 moments without a DNS record",
			func(r *probe.Result) { r.Details.DNS.MomentsWithoutRecord = 1 }),
		Entry("no look at DNS", "y: no DNS record was sampled", func(r *probe.Result) { r.Details.DNS.Samples = 0 }),
		Entry("no verification",
			"y: the acknowledged writes could not be verified", func(r *probe.Result) { r.Details.Verified = false }),
		Entry("too little load", "y: the load was 3.0 requests per second, less than 4.8",
			func(r *probe.Result) { r.Details.RequestsPerSecond = 3 }),
		Entry("no events", "y: the watches delivered no event", func(r *probe.Result) { r.WatchEvents = 0 }),
		Entry("no details", "y: there was no load", func(r *probe.Result) { r.Details = nil }),
	)

	It("should describe what was done", func() {
		result := good()
		result.BaselineLongestWriteGapMs = 1200
		Expect(drain.Describe(map[string]*probe.Result{"x": result})).
			To(Equal("x: 200 writes (0 failed), 400 reads (0 failed), 400 watch events (0 lost), longest " +
				"write gap 1.2s\n"))
	})
})
