// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
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
})
