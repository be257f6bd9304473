// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package data_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/test/bench/data"
)

var _ = Describe("Live", func() {
	run := func(kind string, seconds float64, outcome string) Migration {
		return Migration{Kind: kind, Seconds: seconds, Outcome: outcome}
	}

	It("should show of each way the run whose duration is the middle one", func() {
		live := NewLive(Environment{Commit: "abc"}, []Migration{
			run(KindClassic, 300, OutcomeCompleted), run(KindLive, 500, OutcomeCompleted),
			run(KindLive, 480, OutcomeCompleted), run(KindClassic, 310, OutcomeCompleted),
			run(KindClassic, 20, OutcomeStopped), run(KindLive, 490, OutcomeCompleted),
		})
		Expect(live.Environment.Commit).To(Equal("abc"))
		Expect(live.Runs).To(HaveLen(6))
		Expect(live.Classic.Seconds).To(Equal(300.0), "of two the shorter one; that which was stopped does not count")
		Expect(live.Live.Seconds).To(Equal(490.0))
		Expect(live.Of(KindLive)).To(HaveLen(3))
		Expect(SpreadOver(live.Of(KindLive), func(m Migration) float64 { return m.Seconds })).
			To(Equal(Spread{Median: 490, Low: 480, High: 500, Runs: 3}))
	})

	It("should know figures of one run of each way, and none", func() {
		single := run(KindLive, 500, OutcomeCompleted)
		Expect((&Live{Live: &single}).Of(KindLive)).To(Equal([]Migration{single}))
		Expect((&Live{Live: &single}).Of(KindClassic)).To(BeEmpty())
		var none *Live
		Expect(none.Of(KindLive)).To(BeEmpty())
	})

	It("should show a run that was stopped if there is no other", func() {
		live := NewLive(Environment{}, []Migration{run(KindLive, 9, OutcomeStopped)})
		Expect(live.Live.Outcome).To(Equal(OutcomeStopped))
		Expect(live.Classic).To(BeNil())
	})
})
