// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

var _ = Describe("A gap that was agreed to", func() {
	// gapped is a probe for which nothing was served for 20 s.
	gapped := func() recording.Probe {
		p := probe()
		p.AgreedGap, p.WritesFailed, p.ReadsFailed, p.LongestWriteGapMs = true, 40, 60, 21000
		p.Details.Seconds, p.Details.MissedTicks = 600, 400
		p.Details.Watches[0].MaxLagMs = 22000
		p.Details.Series = &recording.Series{IntervalSeconds: 1, Points: make([]recording.Point, 600)}
		for i := 300; i < 320; i++ {
			p.Details.Series.Points[i].Failed = 5
		}
		return p
	}

	It("should be no failure, and one without the agreement", func() {
		p := gapped()
		Expect(p.Failures()).To(BeEmpty())
		p.AgreedGap = false
		Expect(p.Failures()).To(ContainElements("40 writes failed", "60 reads failed",
			"no write was acknowledged for 21s, longer than 5s"))
	})

	It("should need none", func() {
		p := probe()
		p.AgreedGap = true
		Expect(p.Failures()).To(BeEmpty())
	})

	DescribeTable("should not hide", func(expected string, spoil func(*recording.Probe)) {
		p := gapped()
		spoil(&p)
		Expect(p.Failures()).To(ContainElement(expected))
	},
		Entry("a second one",
			"this is not the one gap that was agreed to: requests failed within 4m20s, longer than 1m0s",
			func(p *recording.Probe) { p.Details.Series.Points[559].Failed = 1 }),
		Entry("its failures then", "40 writes failed",
			func(p *recording.Probe) { p.Details.Series.Points[559].Failed = 1 }),
		Entry("one that is too long",
			"this is not the one gap that was agreed to: no write was acknowledged for 1m1s, longer than 1m0s",
			func(p *recording.Probe) { p.LongestWriteGapMs = 61000 }),
		Entry("one before the migration",
			"this is not the one gap that was agreed to: no write was acknowledged for 6s before it began",
			func(p *recording.Probe) { p.BaselineLongestWriteGapMs = 6000 }),
		Entry("a load that has become smaller", "this is not the one gap that was agreed to: 4.6 % of the requests "+
			"that were due were not sent, more than 4.5 %", func(p *recording.Probe) { p.Details.MissedTicks = 460 }),
		Entry("what nobody knows the course of",
			"this is not the one gap that was agreed to: the course of the run is not known",
			func(p *recording.Probe) { p.Details.Series = nil }),
		Entry("writes that were lost", "1 acknowledged writes were lost",
			func(p *recording.Probe) { p.Details.AcknowledgedWritesLost = 1 }),
		Entry("reads that were wrong", "60 reads failed", func(p *recording.Probe) { p.Details.StaleReads = 1 }),
		Entry("events that were lost", "1 watch events were lost", func(p *recording.Probe) { p.WatchEventsLost = 1 }),
	)

	It("should come with one voter at the end, and with an etcd of the source that ends by itself", func() {
		r := &recording.Recording{Probe: gapped(), SourceEtcdRestarts: 1,
			Etcd: map[string]recording.Etcd{"main": {Voters: []int{1, 2, 1}, ClusterIDUnchanged: true}}}
		problems := r.Problems(&recording.Details{}, recording.Expected{Etcds: []string{"main"}})
		Expect(problems).NotTo(ContainElement(Or(ContainSubstring("voters"), ContainSubstring("sourceEtcdRestarts"))))
		r.Probe.AgreedGap = false
		problems = r.Problems(&recording.Details{}, recording.Expected{Etcds: []string{"main"}})
		Expect(problems).To(ContainElements("etcd-main ended with 1 voters instead of 3",
			"sourceEtcdRestarts must be 0 and is 1"))
	})

	Describe("of a shoot with workers", func() {
		const aside = "this is not the one gap that was agreed to: "
		var (
			begin   = time.Unix(1_000_000_000, 0)
			second  = func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
			failing = func() *recording.Recording {
				r := &recording.Recording{Probe: gapped(), Workers: &recording.Workers{
					VPN: recording.Requests{Requests: 100, Failed: 2, FirstFailed: second(298),
						LastFailed: second(310)},
					Webhooks: recording.Requests{Requests: 100, Failed: 2, FirstFailed: second(301),
						LastFailed: second(325)},
					InCluster: recording.InCluster{Requests: 100, Failed: 3, FirstFailed: second(303),
						LastFailed: second(322), LongestGapMs: 21000},
					Streams: []recording.Stream{{Kind: "exec", Opened: 3, Broken: 2, Refused: 2,
						FirstRefused: second(305), LastRefused: second(315)}},
				}}
				r.Probe.Details.Series.Begin = begin
				return r
			}
			failed = ContainElements(ContainSubstring("requests through the VPN failed"),
				ContainSubstring("requests that the webhooks of the resource manager judge failed"),
				ContainSubstring("requests of the in-cluster clients failed"),
				ContainSubstring("attempts to open a stream of the kind exec failed"))
		)

		It("should be the same for clients on the nodes, and on the way to them", func() {
			r := failing()
			Expect(r.Problems(&recording.Details{}, recording.Expected{})).
				NotTo(ContainElement(Or(ContainSubstring(" failed"), ContainSubstring(aside))))
			r.Probe.AgreedGap = false
			Expect(r.Problems(&recording.Details{}, recording.Expected{})).To(failed)
		})

		DescribeTable("should not be", func(expected string, spoil func(*recording.Recording)) {
			r := failing()
			spoil(r)
			Expect(r.Problems(&recording.Details{}, recording.Expected{})).
				To(And(failed, ContainElement(aside+expected)))
		},
			Entry("another one", "requests of all clients failed within 1m50s, longer than 1m0s",
				func(r *recording.Recording) { r.Workers.VPN.FirstFailed = second(215) }),
			Entry("one that ends much later", "requests of all clients failed within 2m2s, longer than 1m0s",
				func(r *recording.Recording) { r.Workers.Webhooks.LastFailed = second(420) }),
			Entry("a stream that cannot be opened for long",
				"requests of all clients failed within 1m22s, longer than 1m0s",
				func(r *recording.Recording) { r.Workers.Streams[0].LastRefused = second(380) }),
			Entry("a long time without an answer for one client",
				"an in-cluster client had no answer for 1m1s, longer than 1m0s",
				func(r *recording.Recording) { r.Workers.InCluster.LongestGapMs = 61000 }),
			Entry("a read of less than was acknowledged",
				"1 requests of the in-cluster clients read less than was acknowledged",
				func(r *recording.Recording) { r.Workers.InCluster.Stale = 1 }),
			Entry("one of theirs alone", "only clients on the nodes, or requests to the nodes, had one",
				func(r *recording.Recording) {
					r.Probe.Details.Series.Points = make([]recording.Point, 600)
					r.Probe.WritesFailed, r.Probe.ReadsFailed, r.Probe.LongestWriteGapMs = 0, 0, 0
				}),
			Entry("what nobody knows the time of", "when requests from the nodes or to the nodes failed is not known",
				func(r *recording.Recording) { r.Workers.InCluster.FirstFailed = time.Time{} }),
		)
	})
})
