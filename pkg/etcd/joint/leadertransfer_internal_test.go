// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

var _ = Describe("calm", func() {
	const timeout = 30 * time.Second
	var (
		c      *calm
		status = func(index, applied uint64) etcdclient.Status {
			return etcdclient.Status{RaftIndex: index, RaftAppliedIndex: applied}
		}
	)

	BeforeEach(func() {
		c = &calm{}
		for range quietSamples {
			c.sample(2*time.Millisecond, 0, timeout, status(7, 7))
		}
	})

	It("should know the leader first", func() {
		fresh := &calm{}
		for i := range quietSamples {
			Expect(fresh.sample(time.Millisecond, 0, timeout, status(7, 7))).To(Equal(i == quietSamples-1))
		}
	})

	DescribeTable("should choose a moment", func(took, waited time.Duration, index, applied uint64, good bool) {
		Expect(c.sample(took, waited, timeout, status(index, applied))).To(Equal(good))
	},
		Entry("as fast as before, with nothing committed", 2*time.Millisecond, time.Duration(0), uint64(7), uint64(7),
			true),
		Entry("faster than ever", time.Millisecond, time.Duration(0), uint64(7), uint64(7), true),
		Entry("a little slower", 4*time.Millisecond, 4*time.Second, uint64(7), uint64(7), true),
		Entry("not while the way is slow", 5*time.Millisecond, 4*time.Second, uint64(7), uint64(7), false),
		Entry("not while it is slow, even after a while", 5*time.Millisecond, 29*time.Second, uint64(7), uint64(7),
			false),
		Entry("not in the middle of writes", 2*time.Millisecond, timeout, uint64(8), uint64(8), false),
		Entry("not while a write is being applied", 2*time.Millisecond, timeout, uint64(7), uint64(6), false),
		Entry("in the middle of writes, when the time is over", 2*time.Millisecond, timeout+1, uint64(8), uint64(8),
			true),
		Entry("not a slow one when the time is over", 5*time.Millisecond, 2*timeout, uint64(8), uint64(8), false),
		Entry("any, when it has been over for long", 5*time.Millisecond, 2*timeout+1, uint64(8), uint64(8), true),
	)

	It("should not trust a single fast answer", func() {
		Expect(c.sample(time.Second, 0, timeout, status(7, 7))).To(BeFalse())
		for range quietRun - 1 {
			Expect(c.sample(2*time.Millisecond, 0, timeout, status(7, 7))).To(BeFalse())
		}
		Expect(c.sample(2*time.Millisecond, 0, timeout, status(7, 7))).To(BeTrue())
	})

	It("should trust fewer of them after a while", func() {
		Expect(c.sample(time.Second, 4*quietRelax, timeout, status(7, 7))).To(BeFalse())
		for range quietRun - 5 {
			Expect(c.sample(2*time.Millisecond, 4*quietRelax, timeout, status(7, 7))).To(BeFalse())
		}
		Expect(c.sample(2*time.Millisecond, 4*quietRelax, timeout, status(7, 7))).To(BeTrue())
		Expect(c.sample(2*time.Millisecond, 20*quietRelax, timeout, status(7, 7))).To(BeTrue())
	})

	It("should choose the moment after a write, or a long silence", func() {
		Expect(c.sample(time.Millisecond, 0, timeout, status(8, 8))).To(BeFalse())
		Expect(c.sample(time.Millisecond, 0, timeout, status(8, 8))).To(BeTrue())
		for range quietSamples - 3 {
			Expect(c.sample(time.Millisecond, 0, timeout, status(8, 8))).To(BeFalse())
		}
		Expect(c.sample(time.Millisecond, 0, timeout, status(8, 8))).To(BeTrue())
	})

	It("should measure against the fastest answer, and against what is usual where that is hardly ever had", func() {
		Expect(c.sample(time.Millisecond, 0, timeout, status(7, 7))).To(BeTrue())
		Expect(c.sample(3*time.Millisecond, 0, timeout, status(7, 7))).To(BeFalse())

		// Of a hundred answers one takes a millisecond, the others from 11 ms to 109 ms.
		busy := func(took, waited time.Duration) bool {
			c := &calm{}
			c.sample(time.Millisecond, 0, timeout, status(7, 7))
			for i := range 98 {
				c.sample(time.Duration(11+i)*time.Millisecond, 0, timeout, status(7, 7))
			}
			var good bool
			for range quietRun {
				good = c.sample(took, waited, timeout, status(7, 7))
			}
			return good
		}
		Expect(busy(15*time.Millisecond, 0)).To(BeTrue(), "one of the fastest 10 in 100")
		Expect(busy(30*time.Millisecond, 0)).To(BeFalse())
		Expect(busy(30*time.Millisecond, 2*quietRelax)).To(BeTrue(), "one of the fastest 30 in 100")
		Expect(busy(100*time.Millisecond, timeout)).To(BeFalse())
		Expect(busy(100*time.Millisecond, timeout+1)).To(BeFalse())
		Expect(busy(70*time.Millisecond, timeout+1)).To(BeTrue(), "one of the fastest 70 in 100")
	})
})
