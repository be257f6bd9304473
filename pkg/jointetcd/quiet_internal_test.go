// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package jointetcd

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/etcdcluster"
)

var _ = Describe("calm", func() {
	var (
		c      *calm
		status = func(index, applied uint64) etcdcluster.Status {
			return etcdcluster.Status{RaftIndex: index, RaftAppliedIndex: applied}
		}
	)

	BeforeEach(func() {
		c = &calm{}
		for range quietSamples {
			c.sample(2*time.Millisecond, 0, status(7, 7))
		}
	})

	It("should know the leader first", func() {
		fresh := &calm{}
		for i := range quietSamples {
			Expect(fresh.sample(time.Millisecond, 0, status(7, 7))).To(Equal(i == quietSamples-1))
		}
	})

	DescribeTable("should choose a moment", func(took, waited time.Duration, index, applied uint64, good bool) {
		Expect(c.sample(took, waited, status(index, applied))).To(Equal(good))
	},
		Entry("as fast as ever, with nothing committed", 2*time.Millisecond, time.Duration(0), uint64(7), uint64(7), true),
		Entry("faster than ever", time.Millisecond, time.Duration(0), uint64(7), uint64(7), true),
		Entry("a little slower", 4*time.Millisecond, 4*time.Second, uint64(7), uint64(7), true),
		Entry("not while the way is slow", 5*time.Millisecond, 4*time.Second, uint64(7), uint64(7), false),
		Entry("slower, after a while", 6*time.Millisecond, 5*time.Second, uint64(7), uint64(7), true),
		Entry("not much slower after a while", 7*time.Millisecond, 9*time.Second, uint64(7), uint64(7), false),
		Entry("not in the midst of writes", 2*time.Millisecond, time.Minute, uint64(8), uint64(8), false),
		Entry("not while a write is being applied", 2*time.Millisecond, time.Minute, uint64(7), uint64(6), false),
	)

	It("should not trust a single fast answer", func() {
		Expect(c.sample(time.Second, 0, status(7, 7))).To(BeFalse())
		for range quietRun - 1 {
			Expect(c.sample(2*time.Millisecond, 0, status(7, 7))).To(BeFalse())
		}
		Expect(c.sample(2*time.Millisecond, 0, status(7, 7))).To(BeTrue())
	})

	It("should trust fewer of them after a while", func() {
		Expect(c.sample(time.Second, 4*quietRelax, status(7, 7))).To(BeFalse())
		for range quietRun - 5 {
			Expect(c.sample(2*time.Millisecond, 4*quietRelax, status(7, 7))).To(BeFalse())
		}
		Expect(c.sample(2*time.Millisecond, 4*quietRelax, status(7, 7))).To(BeTrue())
		Expect(c.sample(2*time.Millisecond, 20*quietRelax, status(7, 7))).To(BeTrue())
	})

	It("should choose the moment after a write, or a long silence", func() {
		Expect(c.sample(time.Millisecond, 0, status(8, 8))).To(BeFalse())
		Expect(c.sample(time.Millisecond, 0, status(8, 8))).To(BeTrue())
		for range quietSamples - 3 {
			Expect(c.sample(time.Millisecond, 0, status(8, 8))).To(BeFalse())
		}
		Expect(c.sample(time.Millisecond, 0, status(8, 8))).To(BeTrue())
	})

	It("should measure against the fastest answer", func() {
		Expect(c.sample(time.Millisecond, 0, status(7, 7))).To(BeTrue())
		Expect(c.sample(3*time.Millisecond, 0, status(7, 7))).To(BeFalse())
	})
})
