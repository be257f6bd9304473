// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package data_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/test/bench/data"
)

var _ = Describe("Joins", func() {
	run := func(mib int, database, seconds float64) JoinRun {
		return JoinRun{MiB: mib, DatabaseMiB: database, Relayed: JoinParts{Total: Spread{Median: seconds}}}
	}

	It("should keep one run for each size, in their order", func() {
		joins := &Joins{}
		for _, r := range []JoinRun{run(2048, 2600, 1), run(64, 80, 2), run(2048, 2600, 3)} {
			joins.Record(r)
		}
		Expect(joins.Runs).To(Equal([]JoinRun{run(64, 80, 2), run(2048, 2600, 3)}))
	})

	It("should say how fast a snapshot comes, with its sync", func() {
		r := run(1, 1000, 9)
		Expect(r.MBPerSecond()).To(BeZero(), "nothing was measured")
		r.Relayed.Transfer.Median, r.Relayed.Sync.Median = 3, 1
		Expect(r.MBPerSecond()).To(BeNumerically("~", 262.144, 0.001))
	})

	It("should fit a line", func() {
		joins := &Joins{Runs: []JoinRun{run(1, 1024, 7), run(2, 2048, 11), run(4, 4096, 19)}}
		model, ok := joins.Model()
		Expect(ok).To(BeTrue())
		Expect(model.FixedSeconds).To(BeNumerically("~", 3, 1e-9))
		Expect(model.SecondsPerGiB).To(BeNumerically("~", 4, 1e-9))
		Expect(model.Seconds(8)).To(BeNumerically("~", 35, 1e-9))

		joins.Runs[1].Relayed.Total.Median = 14
		model, _ = joins.Model()
		Expect(model.Seconds(7.0/3)).To(BeNumerically("~", 40.0/3, 1e-9), "the line goes through the mean of all")
	})

	It("should fit nothing through one point", func() {
		for _, joins := range []*Joins{{}, {Runs: []JoinRun{run(1, 1024, 7)}},
			{Runs: []JoinRun{run(1, 1024, 7), run(2, 1024, 8)}}} {
			_, ok := joins.Model()
			Expect(ok).To(BeFalse())
		}
	})
})
