// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Abandonment of the source", func() {
	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint

		// world makes both clusters consist of the destination's three and so many members of the source.
		world = func(main, events int) {
			for etcdRole, left := range map[string]int{"main": main, "events": events} {
				s.joinDestination(etcdRole, 3)
				s.lead(etcdRole, memberName("seed-b", etcdRole, 0))
				s.removeSource(etcdRole, left)
			}
		}
		// lose lets nobody reach the members of the source.
		lose = func() {
			for etcdRole, cluster := range s.clusters {
				for ordinal := range 3 {
					cluster.SetUp(memberName("seed-a", etcdRole, ordinal), false)
				}
			}
		}
		hold = func() *Progress {
			GinkgoHelper()
			progress, err := j.CheckAbandonSource(ctx)
			Expect(err).NotTo(HaveOccurred())
			return progress
		}
		names = func(etcdRole string) []string { return s.clusters[etcdRole].Names() }
	)

	BeforeEach(func() {
		s = newSeedsOf("seed-b")
		j = s.joint(steps.Destination)
	})

	DescribeTable("should take the last members of a lost source out, one by one", func(main, events int) {
		world(main, events)
		lose()
		Expect(hold()).To(BeNil())
		Expect(j.RemoveAbandonedSource(ctx)).To(Succeed())
		for _, etcdRole := range []string{"main", "events"} {
			Expect(names(etcdRole)).To(ConsistOf(memberName("seed-b", etcdRole, 0),
				memberName("seed-b", etcdRole, 1), memberName("seed-b", etcdRole, 2)))
		}
		Expect(j.RemoveAbandonedSource(ctx)).To(Succeed(), "it can be repeated")
		Expect(hold()).To(BeNil(), "and so can the look before it")
	},
		Entry("when one has left", 2, 2),
		Entry("when two have left", 1, 1),
		Entry("when they are at different points", 1, 2),
		Entry("when all have left one of them", 0, 1),
		Entry("when none is left", 0, 0),
	)

	It("should not remove members that can still be reached, because they would join again", func() {
		world(2, 2)
		Expect(hold()).To(BeNil(), "that they answer is no obstacle to closing the way")
		Expect(j.RemoveAbandonedSource(ctx)).
			To(MatchError(ContainSubstring("still answers until the way to it is closed")))
		Expect(names("main")).To(HaveLen(5))
	})

	It("should move leadership here before the way is closed", func() {
		world(2, 2)
		s.lead("main", memberName("seed-a", "main", 0))
		Eventually(hold).Should(BeNil())
		Expect(s.clusters["main"].Leader()).To(HavePrefix("seed-b-"))
	})

	It("should not close the way as long as the destination is not whole", func() {
		world(0, 0)
		s.clusters["events"].SetUp(memberName("seed-b", "events", 1), false)
		Expect(hold()).To(HaveValue(And(HaveField("Reason", steps.ReasonQuorumAtRisk),
			HaveField("Message", ContainSubstring("etcd-events: the destination is not whole by itself")))))
	})

	DescribeTable("should touch nothing without a quorum of the destination", func(joined int) {
		s.joinDestination("main", joined)
		s.joinDestination("events", joined)
		before := names("main")
		lose()
		progress, err := j.CheckAbandonSource(ctx)
		if err == nil {
			Expect(progress).To(HaveValue(HaveField("Reason", BeElementOf(steps.ReasonQuorumLost,
				steps.ReasonQuorumAtRisk))))
		}
		Expect(j.RemoveAbandonedSource(ctx)).NotTo(Succeed())
		Expect(names("main")).To(Equal(before))
	},
		Entry("with five voters, three of them in the source", 2),
		Entry("with six voters", 3),
	)
})
