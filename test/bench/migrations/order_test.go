// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/data"
)

var _ = Describe("Order", func() {
	It("should let both kinds take turns, and both begin", func() {
		Expect(Order(0)).To(BeEmpty())
		Expect(Order(3)).To(Equal([]string{data.KindClassic, data.KindLive, data.KindLive, data.KindClassic,
			data.KindClassic, data.KindLive}))
	})

	It("should lead both kinds in both directions", func() {
		// Each migration goes to the other seed.
		directions := map[string]map[bool]bool{data.KindClassic: {}, data.KindLive: {}}
		for i, kind := range Order(2) {
			directions[kind][i%2 == 0] = true
		}
		Expect(directions).To(HaveEach(HaveLen(2)))
	})
})

var _ = Describe("Quiet", func() {
	run := func(kind string, seconds float64, outcome string) data.Migration {
		return data.Migration{Kind: kind, Seconds: seconds, Outcome: outcome}
	}
	made := []data.Migration{run(data.KindLive, 480.4, data.OutcomeCompleted),
		run(data.KindLive, 500.6, data.OutcomeCompleted), run(data.KindLive, 9999, data.OutcomeStopped)}
	classic := run(data.KindClassic, 332, data.OutcomeCompleted)
	recorded := &data.Live{Classic: &classic}

	DescribeTable("should be as long as the migration that it is compared with",
		func(kind string, made []data.Migration, recorded *data.Live, quiet time.Duration) {
			Expect(Quiet(kind, made, recorded, time.Minute)).To(Equal(quiet))
		},
		Entry("the last of those made", data.KindLive, made, recorded, 501*time.Second),
		Entry("the one on record", data.KindClassic, made, recorded, 332*time.Second),
		Entry("none", data.KindClassic, made, nil, time.Minute),
		Entry("one that is shorter than the shortest", data.KindLive,
			[]data.Migration{run(data.KindLive, 30, data.OutcomeCompleted)}, nil, time.Minute),
		Entry("none that was completed", data.KindLive,
			[]data.Migration{run(data.KindLive, 800, data.OutcomeStopped)}, nil, time.Minute),
	)
})
