// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

var _ = Describe("Where requests failed", func() {
	begin := time.Date(2026, 11, 28, 16, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	var details *recording.Details

	BeforeEach(func() {
		details = &recording.Details{
			Triggered: at(30),
			Probe: &recording.ProbeDetails{Series: &recording.Series{
				Begin: begin, IntervalSeconds: 2, Points: make([]recording.Point, 100)}},
			Transitions: []recording.Transition{
				{Time: at(40), Condition: "SourceEtcdPreparedForPeerJoin", Status: "Progressing", Reason: "Started"},
				{Time: at(90), Condition: "DestinationKubeAPIServerReady", Status: "Progressing",
					Reason: "DeployingKubeAPIServer"},
				{Time: at(150), Condition: "DestinationKubeAPIServerReady", Status: "True", Reason: "Done"},
			},
			Etcd: map[string][]recording.Members{
				"main":   {{Time: at(0), Voters: 3}, {Time: at(60), Voters: 4}, {Time: at(80), Voters: 5}},
				"events": {{Time: at(0), Voters: 3}, {Time: at(70), Voters: 4}},
			},
		}
	})
	fail := func(second, requests int) { details.Probe.Series.Points[second/2].Failed = requests }

	It("should be nowhere if none did", func() { Expect(details.WhereFailed()).To(BeEmpty()) })

	It("should be unknown without a course, or without a load", func() {
		details.Probe.Series = nil
		Expect(details.WhereFailed()).To(BeEmpty())
		details.Probe = nil
		Expect(details.WhereFailed()).To(BeEmpty())
	})

	It("should name the step, its reason and the voters at the first of them", func() {
		fail(100, 5)
		fail(102, 3)
		Expect(details.WhereFailed()).To(Equal([]string{"8 requests failed from 16:01:40 to 16:01:44, in " +
			"DestinationKubeAPIServerReady (DeployingKubeAPIServer), 4 voters in etcd-events, 5 voters in etcd-main"}))
	})

	It("should be one time if they fail within what a request may take, and another one later", func() {
		fail(100, 1)
		fail(112, 1)
		fail(126, 1)
		Expect(details.Probe.Series.FailedSpans()).To(Equal([]recording.FailedSpan{
			{Begin: at(100), End: at(114), Requests: 2}, {Begin: at(126), End: at(128), Requests: 1}}))
	})

	It("should be told for what fails before the first step, too", func() {
		fail(20, 1)
		fail(36, 2)
		Expect(details.WhereFailed()).To(Equal([]string{
			"1 requests failed from 16:00:20 to 16:00:22, before the migration, 3 voters in etcd-events, " +
				"3 voters in etcd-main",
			"2 requests failed from 16:00:36 to 16:00:38, before step 1, 3 voters in etcd-events, " +
				"3 voters in etcd-main"}))
	})

	It("should do without members that nobody has seen", func() {
		details.Etcd = nil
		fail(100, 1)
		Expect(details.WhereFailed()).To(ConsistOf(HaveSuffix("(DeployingKubeAPIServer)")))
	})
})
