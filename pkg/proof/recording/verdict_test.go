// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// probe is what clients notice of which nothing is wrong.
func probe() recording.Probe {
	return recording.Probe{
		Writes: 3000, Reads: 7000, WatchEvents: 30000, LongestWriteGapMs: 1500, BaselineLongestWriteGapMs: 200,
		Details: &recording.ProbeDetails{
			Verified: true, RequestsPerSecond: 70.3, RequestsDue: 10000,
			Scheduled: map[string]recording.Scheduled{
				"kept writes": {Due: 4000}, "kept reads": {Due: 5900}, "Events": {Due: 100},
			},
			Watches: make([]recording.Watch, 2),
			DNS:     &recording.Answers{Samples: 1000},
		},
	}
}

var _ = Describe("Failures of a probe", func() {
	It("should be none when nothing is wrong, whatever clients did not see", func() {
		p := probe()
		p.RawConnectionErrors = 7
		p.Details.Watches[0] = recording.Watch{Established: 3, Broken: 1, MaxLagMs: 10000}
		Expect(p.Failures()).To(BeEmpty())
	})

	It("should tell what was not served in time from what was lost or wrong", func() {
		p := probe()
		Expect(p.Unserved()).To(BeEmpty())
		p.WritesFailed, p.ReadsFailed, p.WatchEventsLost, p.LongestWriteGapMs = 1, 2, 3, 5001
		p.Details.AcknowledgedWritesLost, p.Details.AcknowledgedEventsLost = 4, 5
		p.Details.DNS.Unanswered, p.Details.MissedTicks, p.Details.Verified = 1, 101, false
		p.Details.Watches[0].MaxLagMs, p.Details.Watches[1].Duplicates = 10500, 7
		unserved := []string{"1 writes failed", "2 reads failed",
			"watch 1 delivered an event 10.5s after its write, later than 10s",
			"101 of 10000 requests that were due were not sent, more than 1 %",
			"no write was acknowledged for 5.001s, longer than 5s"}
		Expect(p.Unserved()).To(Equal(unserved))
		Expect(p.Failures()).To(ContainElements(unserved), "in the same words")
		Expect(p.Failures()).To(HaveLen(len(unserved)+6), "the others are lost or wrong")

		p.Details.StaleReads = 1
		Expect(p.Unserved()).NotTo(ContainElement("2 reads failed"), "one of them gave what was no longer true")
		p.Details.RequestsDue = 0
		Expect(p.Unserved()).NotTo(ContainElement(ContainSubstring("due")), "nobody knows what was due")
	})

	DescribeTable("should name each", func(expected string, spoil func(*recording.Probe, *recording.ProbeDetails)) {
		p := probe()
		spoil(&p, p.Details)
		Expect(p.Failures()).To(ConsistOf(expected))
	},
		Entry("write that failed, whether client-go would have sent it again or not", "1 writes failed",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.WritesFailed, p.WritesRetryable = 1, 1 }),
		Entry("read that failed", "2 reads failed",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.ReadsFailed = 2 }),
		Entry("lost event", "3 watch events were lost",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.WatchEventsLost = 3 }),
		Entry("lost write", "4 acknowledged writes were lost",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.AcknowledgedWritesLost = 4 }),
		Entry("lost Event", "5 acknowledged Events were lost",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.AcknowledgedEventsLost = 5 }),
		Entry("moment without a record", "6 moments without a DNS record",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.DNS.MomentsWithoutRecord = 6 }),
		Entry("question without an answer", "the DNS server did not answer 1 of 1000 samples",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.DNS.Unanswered = 1 }),
		Entry("event that came twice", "watch 2 delivered 7 events twice and 1 out of order",
			func(_ *recording.Probe, d *recording.ProbeDetails) {
				d.Watches[1].Duplicates, d.Watches[1].OutOfOrder = 7, 1
			}),
		Entry("event that came late", "watch 1 delivered an event 10.5s after its write, later than 10s",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.Watches[0].MaxLagMs = 10500 }),
		Entry("run without events", "the watches delivered no event",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.WatchEvents = 0 }),
		Entry("long time without a write", "no write was acknowledged for 5.001s, longer than 5s",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.LongestWriteGapMs = 5001 }),
		Entry("long time without a write before the trigger", "no write was acknowledged for 6s, longer than 5s",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.BaselineLongestWriteGapMs = 6000 }),
		Entry("load that became smaller", "101 of 10000 requests that were due were not sent, more than 1 %",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.MissedTicks = 101 }),
		Entry("kind of requests that became fewer", "2 of 100 Events that were due were not sent, more than 1 %",
			func(_ *recording.Probe, d *recording.ProbeDetails) {
				d.MissedTicks = 2
				d.Scheduled["Events"] = recording.Scheduled{Due: 100, Unsent: 2}
			}),
		Entry("load of which nobody knows what it should have been", "how many requests were due is not known",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.RequestsDue = 0 }),
		Entry("run without verification", "the acknowledged writes could not be verified",
			func(_ *recording.Probe, d *recording.ProbeDetails) { d.Verified = false }),
		Entry("run without details", "the acknowledged writes could not be verified",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.Details = nil }),
		Entry("run without a write", "the run was too short: nothing was written or read",
			func(p *recording.Probe, _ *recording.ProbeDetails) { p.Writes = 0 }),
	)

	It("should permit that one of every hundred requests is not sent, and one of a rare kind", func() {
		p := probe()
		p.Details.MissedTicks = 100
		p.Details.Scheduled = map[string]recording.Scheduled{
			"kept writes": {Due: 9980, Unsent: 99}, "rare": {Due: 20, Unsent: 1},
		}
		Expect(p.Failures()).To(BeEmpty())
	})
})

var _ = Describe("Problems of a migration", func() {
	expected := recording.Expected{Etcds: []string{"main", "events"}, Steps: 2,
		Phases: []string{"before step 1", "step 1", "step 2", "after the hand-over"}}

	good := func() (*recording.Recording, *recording.Details) {
		etcd := recording.Etcd{Voters: []int{3, 4, 5, 6, 5, 4, 3}, ClusterIDUnchanged: true}
		return &recording.Recording{
			DurationSeconds: 300, Probe: probe(), Steps: make([]recording.Step, 2),
			Etcd: map[string]recording.Etcd{"main": etcd, "events": etcd},
			Ownership: &recording.Ownership{Samples: 300, Phases: map[string]int{
				"before step 1": 30, "step 1": 119, "step 2": 120, "after the hand-over": 31,
			}},
		}, &recording.Details{}
	}

	It("should be none when nothing is wrong", func() {
		r, d := good()
		Expect(r.Problems(d, expected)).To(BeEmpty())
	})

	DescribeTable("should name each", func(problem string, spoil func(*recording.Recording, *recording.Details)) {
		r, d := good()
		spoil(r, d)
		Expect(r.Problems(d, expected)).To(ConsistOf(problem))
	},
		Entry("failure of a client", "1 writes failed",
			func(r *recording.Recording, _ *recording.Details) { r.Probe.WritesFailed = 1 }),
		Entry("phase without a look", `who acts in which seed was never looked at in the phase "step 2"`,
			func(r *recording.Recording, _ *recording.Details) { delete(r.Ownership.Phases, "step 2") }),
		Entry("run with too few looks", "who acts in which seed was looked at only 59 times in 300 s",
			func(r *recording.Recording, _ *recording.Details) { r.Ownership.Samples = 59 }),
		Entry("error of an observer", "an observer could not see everything: no pod of etcd-main runs",
			func(_ *recording.Recording, d *recording.Details) {
				d.ObserverErrors = []string{"no pod of etcd-main runs"}
			}),
		Entry("moment without a record that only the server's log tells of",
			"dnsMomentsWithoutRecord must be 0 and is 1",
			func(r *recording.Recording, _ *recording.Details) { r.DNSMomentsWithoutRecord = 1 }),
		Entry("run without DNS samples", "no DNS record was sampled",
			func(r *recording.Recording, _ *recording.Details) { r.Probe.Details.DNS.Samples = 0 }),
		Entry("run without a watch", "there was no watch",
			func(r *recording.Recording, _ *recording.Details) { r.Probe.Details.Watches = nil }),
		Entry("run with too little load", "the load was 59.9 requests per second, less than 60",
			func(r *recording.Recording, _ *recording.Details) { r.Probe.Details.RequestsPerSecond = 59.9 }),
		Entry("restart of an etcd", "sourceEtcdRestarts must be 0 and is 1",
			func(r *recording.Recording, _ *recording.Details) { r.SourceEtcdRestarts = 1 }),
		Entry("leftover", "objects left in the source seed must be 0 and is 1",
			func(_ *recording.Recording, d *recording.Details) { d.LeftInSource = []string{"secrets a/b"} }),
		Entry("unfinished step", "only 1 of 2 steps finished",
			func(r *recording.Recording, _ *recording.Details) { r.Steps = r.Steps[:1] }),
		Entry("etcd that nobody saw", "etcd-events was not observed",
			func(r *recording.Recording, _ *recording.Details) { delete(r.Etcd, "events") }),
		Entry("etcd that has another cluster", "the cluster ID of etcd-main changed",
			func(r *recording.Recording, _ *recording.Details) {
				r.Etcd["main"] = recording.Etcd{Voters: []int{3}}
			}),
	)

	It("should say that there was no load, and that nobody looked", func() {
		r, d := good()
		r.Probe.Details, r.Ownership = nil, nil
		Expect(r.Problems(d, expected)).To(ConsistOf("the acknowledged writes could not be verified",
			"there was no load", "who acts in which seed was looked at only 0 times in 300 s",
			ContainSubstring(`"before step 1"`), ContainSubstring(`"step 1"`), ContainSubstring(`"step 2"`),
			ContainSubstring(`"after the hand-over"`)))
	})
})
