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

var _ = Describe("Abandonment", func() {
	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint

		// lose lets nobody reach the members of the destination.
		lose = func() {
			for etcdRole, cluster := range s.clusters {
				for _, name := range cluster.Names() {
					for ordinal := range 2 {
						if name == memberName("seed-b", etcdRole, ordinal) {
							cluster.SetUp(name, false)
						}
					}
				}
			}
		}
		hold = func() *Progress {
			GinkgoHelper()
			progress, err := j.CheckAbandon(ctx)
			Expect(err).NotTo(HaveOccurred())
			return progress
		}
	)

	BeforeEach(func() {
		s = newSeeds()
		j = s.joint(steps.Source)
		s.joinDestination("main", 2)
		s.joinDestination("events", 2)
	})

	It("should take all members of a lost destination out, one by one", func() {
		lose()
		Expect(hold()).To(BeNil())
		Expect(j.RemoveAbandoned(ctx)).To(Succeed())
		for _, etcdRole := range []string{"main", "events"} {
			Expect(s.clusters[etcdRole].Names()).To(Equal([]string{memberName("seed-a", etcdRole, 0),
				memberName("seed-a", etcdRole, 1), memberName("seed-a", etcdRole, 2)}))
		}
		Expect(s.sawVoters("main")).To(Equal([]int{5, 4, 3}))
		Expect(j.RemoveAbandoned(ctx)).To(Succeed(), "it can be repeated")
		Expect(hold()).To(BeNil(), "and so can the look before it")
	})

	It("should take learners out, started or not", func() {
		id := s.addLearner("main", 2)
		lose()
		Expect(hold()).To(BeNil())
		Expect(j.RemoveAbandoned(ctx)).To(Succeed())
		Expect(s.clusters["main"].Names()).To(HaveLen(3))
		Expect(id).NotTo(BeZero())
	})

	It("should not remove members that can still be reached, because they would join again", func() {
		Expect(hold()).To(BeNil(), "that they answer is no obstacle to closing the way")
		Expect(j.RemoveAbandoned(ctx)).To(MatchError(ContainSubstring("still answers until the way to it is closed")))
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
	})

	It("should move leadership back before the way is closed", func() {
		s.lead("main", "seed-b-etcd-main-0")
		Expect(hold()).To(HaveValue(And(HaveField("Reason", steps.ReasonAborting),
			HaveField("Message", ContainSubstring("leadership moves back to the source")))))
		Expect(s.clusters["main"].Leader()).To(HavePrefix("seed-a-"))
		Expect(hold()).To(BeNil())
	})

	It("should not close the way to members that the quorum needs", func() {
		s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
		Expect(hold()).To(HaveValue(And(HaveField("Reason", steps.ReasonQuorumAtRisk),
			HaveField("Message", ContainSubstring("no quorum without the destination")))))
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
	})

	It("should touch nothing without a quorum", func() {
		lose()
		s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
		progress, err := j.CheckAbandon(ctx)
		if err == nil {
			Expect(progress).To(HaveValue(HaveField("Reason", steps.ReasonQuorumLost)))
		}
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
		Expect(j.RemoveAbandoned(ctx)).NotTo(Succeed())
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
	})
})

var _ = Describe("Withdraw after the point of no return", func() {
	It("should stop nothing once a member of the source has been removed", func() {
		s := newSeedsOf("seed-b")
		j := s.joint(steps.Destination)
		s.joinDestination("main", 3)
		s.removeSource("main", 2)
		before := s.happened()
		progress, err := j.WithdrawNext(context.Background(), "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Done).To(BeFalse())
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
		Expect(progress.Message).To(ContainSubstring("the source has 2 of 3 members"))
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
		Expect(s.happened()).To(Equal(before))
	})
})
