// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	product "github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/drain"
)

var _ = Describe("#Problems", func() {
	good := func() *probe.Result {
		return &probe.Result{
			Writes: 200, Reads: 400, WatchEvents: 400,
			Details: &probe.Details{Verified: true, RequestsPerSecond: 6, RequestsDue: 700,
				Watches: make([]probe.WatchDetails, 2), DNS: &probe.DNSResult{Samples: 100}},
		}
	}

	It("should be none if no client has noticed anything", func() {
		Expect(drain.Problems(map[string]*probe.Result{"x": good(), "y": good()}, nil)).To(BeEmpty())
	})

	DescribeTable("should tell of each", func(expected string, change func(*probe.Result)) {
		bad := good()
		change(bad)
		Expect(drain.Problems(map[string]*probe.Result{"x": good(), "y": bad}, nil)).To(ConsistOf(expected))
	},
		Entry("a write", "y: 1 writes failed", func(r *probe.Result) { r.WritesFailed = 1 }),
		Entry("a read", "y: 2 reads failed", func(r *probe.Result) { r.ReadsFailed = 2 }),
		Entry("an event", "y: 1 watch events were lost", func(r *probe.Result) { r.WatchEventsLost = 1 }),
		Entry("what was acknowledged",
			"y: 1 acknowledged writes were lost", func(r *probe.Result) { r.Details.AcknowledgedWritesLost = 1 }),
		Entry("what was acknowledged by etcd-events",
			"y: 1 acknowledged Events were lost", func(r *probe.Result) { r.Details.AcknowledgedEventsLost = 1 }),
		Entry("DNS", "y: 1 moments without a DNS record",
			func(r *probe.Result) { r.Details.DNS.MomentsWithoutRecord = 1 }),
		Entry("a DNS server that did not answer", "y: the DNS server did not answer 1 of 100 samples",
			func(r *probe.Result) { r.Details.DNS.Unanswered = 1 }),
		Entry("requests that were not sent", "y: 8 of 700 requests that were due were not sent, more than 1 %",
			func(r *probe.Result) { r.Details.MissedTicks = 8 }),
		Entry("a long time without a write", "y: no write was acknowledged for 5.001s, longer than 5s",
			func(r *probe.Result) { r.BaselineLongestWriteGapMs = 5001 }),
		Entry("no watch", "y: there was no watch", func(r *probe.Result) { r.Details.Watches = nil }),
		Entry("no look at DNS", "y: no DNS record was sampled", func(r *probe.Result) { r.Details.DNS.Samples = 0 }),
		Entry("no verification",
			"y: the acknowledged writes could not be verified", func(r *probe.Result) { r.Details.Verified = false }),
		Entry("too little load", "y: the load was 3.0 requests per second, less than 4.8",
			func(r *probe.Result) { r.Details.RequestsPerSecond = 3 }),
		Entry("no events", "y: the watches delivered no event", func(r *probe.Result) { r.WatchEvents = 0 }),
		Entry("no details", "y: there was no load", func(r *probe.Result) { r.Details = nil }),
	)

	Describe("of shoots that moved in different ways", func() {
		const second = time.Second
		var (
			begin   = time.Unix(1_000_000_000, 0)
			problem = func(way product.Way, change func(*probe.Result)) []string {
				GinkgoHelper()
				result := good()
				// One write failed at the beginning of the gap, and one at its end.
				gap := 20
				result.WritesFailed, result.LongestWriteGapMs = 2, 20_000
				points := make([]recording.Point, 100)
				points[40].Failed, points[40+gap].Failed = 1, 1
				result.Details.Series = &recording.Series{Begin: begin, IntervalSeconds: 1, Points: points}
				change(result)
				return drain.Problems(map[string]*probe.Result{"x": result}, map[string]product.Way{"x": way})
			}
		)

		It("should permit one gap to those that have agreed to it, and to nobody else", func() {
			nothing := func(*probe.Result) {}
			Expect(problem(product.LiveWithGap, nothing)).To(BeEmpty())
			Expect(problem(product.Live, nothing)).To(ConsistOf("x: 2 writes failed",
				"x: no write was acknowledged for 20s, longer than 5s"))
		})

		It("should not permit them a long one", func() {
			Expect(problem(product.LiveWithGap, func(r *probe.Result) {
				r.LongestWriteGapMs = (61 * second).Milliseconds()
			})).To(ContainElement(ContainSubstring("this is not the one gap that was agreed to")))
		})

		It("should permit those that move classically any time without an answer, and no loss", func() {
			Expect(problem(product.Classic, func(r *probe.Result) {
				r.LongestWriteGapMs = (400 * second).Milliseconds()
			})).To(BeEmpty())
			Expect(problem(product.Classic, func(r *probe.Result) { r.Details.AcknowledgedWritesLost = 1 })).
				To(ConsistOf("x: 1 acknowledged writes were lost"))
		})
	})

	It("should describe what was done", func() {
		result := good()
		result.BaselineLongestWriteGapMs = 1200
		Expect(drain.Describe(map[string]*probe.Result{"x": result})).
			To(Equal("x: 200 writes (0 failed), 400 reads (0 failed), 400 watch events (0 lost), 0 " +
				"acknowledged writes lost, longest write gap 1.2s\n"))
		result.Details.Verified = false
		Expect(drain.Describe(map[string]*probe.Result{"x": result})).
			To(ContainSubstring("an unknown number of acknowledged writes lost"))
	})

	It("should describe when requests failed", func() {
		result := good()
		points := make([]recording.Point, 100)
		points[40].Failed, points[41].Failed = 1, 2
		result.Details.Series = &recording.Series{Begin: time.Unix(1_000_000_000, 0), IntervalSeconds: 1,
			Points: points}
		Expect(drain.DescribeFailures(map[string]*probe.Result{"x": result, "y": good()})).
			To(Equal("x: 3 requests failed from 01:47:20 to 01:47:22\n"))
	})

	It("should keep what happened", func() {
		folder := filepath.Join(GinkgoT().TempDir(), "mix")
		Expect(drain.WriteReport(folder, []product.TableRow{{Name: "x", Way: product.Live}},
			map[string]*probe.Result{"x": good()})).To(Succeed())
		content, err := os.ReadFile(filepath.Join(folder, "report.json"))
		Expect(err).NotTo(HaveOccurred())
		report := &drain.Report{}
		Expect(json.Unmarshal(content, report)).To(Succeed())
		Expect(report.Moves).To(ConsistOf(HaveField("Way", product.Live)))
		Expect(report.Clients).To(HaveKeyWithValue("x", HaveField("Writes", BeEquivalentTo(200))))
		Expect(report.Details).To(HaveKeyWithValue("x", HaveField("RequestsDue", BeEquivalentTo(700))))
	})
})
