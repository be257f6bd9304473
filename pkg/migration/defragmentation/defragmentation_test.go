// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package defragmentation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/defragmentation"
)

func TestDefragmentation(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Defragmentation Suite")
}

var _ = Describe("Defragmentation", func() {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

	DescribeTable("is due about the time of the schedule", func(now time.Time, schedule string, due bool) {
		err := defragmentation.CheckSchedule("etcd-main", schedule, now)
		Expect(defragmentation.Is(err)).To(Equal(due))
		Expect(defragmentation.IsAhead(err)).To(Equal(due))
		if due {
			Expect(err).To(MatchError("etcd-main: a defragmentation is scheduled for 2026-03-01T12:00:00Z"))
		} else {
			Expect(err).NotTo(HaveOccurred())
		}
	},
		Entry("two minutes before", noon.Add(-2*time.Minute+time.Second), "0 12 * * *", true),
		Entry("earlier", noon.Add(-2*time.Minute), "0 12 * * *", false),
		Entry("three minutes after it", noon.Add(3*time.Minute-time.Second), "0 12 * * *", true),
		Entry("later", noon.Add(3*time.Minute), "0 12 * * *", false),
		Entry("in UTC, wherever the agent runs", noon.In(time.FixedZone("east", 5*3600)), "0 12 * * *", true),
		Entry("without a schedule", noon, "", false),
	)

	It("should hold if the schedule cannot be read", func() {
		err := defragmentation.CheckSchedule("etcd-main", "noon", noon)
		Expect(defragmentation.Is(err)).To(BeTrue())
		Expect(defragmentation.IsAhead(err)).To(BeFalse(), "nobody knows")
		Expect(err).To(MatchError(ContainSubstring(`etcd-main: the schedule "noon" cannot be read`)))
	})

	It("should be told from other errors", func() {
		Expect(defragmentation.Is(errors.New("other"))).To(BeFalse())
		Expect(defragmentation.Is(fmt.Errorf("wrapped: %w", &defragmentation.Error{}))).To(BeTrue())
	})
})
