// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What docs/concepts/losses.md says of a loss, where no other spec does.
var _ = Describe("A loss while members of the destination join", func() {
	It("should let a member of the source that has lost its data join before the next one of the destination", func() {
		var (
			ctx  = context.Background()
			s    = newSeeds()
			lost = memberName("seed-a", "main", 1)
		)
		s.joinDestination("main", 1)
		id := s.loseData(steps.Source, "main", 1)
		_, err := s.clusters["main"].AddLearner(peerURL(steps.Destination, "main")(memberName("seed-b", "main", 1)))
		Expect(err).To(HaveOccurred(), "there is one learner at a time")

		destination := s.joint(steps.Destination)
		progress, err := destination.Advance(ctx, "main", 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Done).To(BeFalse())
		Expect(progress.Reason).To(Equal(steps.ReasonWaitingForSourceEtcd))

		s.clusters["main"].Start(id, lost)
		s.clusters["main"].CatchUp(id)
		Expect(s.clusters["main"].Promote(ctx, id)).To(Succeed())
		s.clusters["main"].Start(s.addLearner("main", 1), memberName("seed-b", "main", 1))
		progress, err = destination.Advance(ctx, "main", 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Reason).To(Equal(steps.ReasonWaitingForEtcdMember), "that one catches up")
	})

	It("should take a member of the destination out in an abort although its node is lost", func() {
		var (
			ctx   = context.Background()
			s     = newSeedsOf("seed-b")
			clock = testclock.NewFakeClock(time.Now())
			j     = s.joint(steps.Destination, func(config *Config) { config.Clock = clock })
			key   = client.ObjectKey{Namespace: namespace, Name: naming.PodName("main", 1)}
			lost  = &corev1.Pod{}
		)
		s.joinDestination("main", 2)
		// Nobody reports the end of a pod on a node that is gone, and it is not ready.
		Expect(s.client.Get(ctx, key, lost)).To(Succeed())
		lost.Finalizers = []string{"test/kubelet"}
		Expect(s.client.Update(ctx, lost)).To(Succeed())
		lost.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		Expect(s.client.Status().Update(ctx, lost)).To(Succeed())
		s.clusters["main"].SetUp(memberName("seed-b", "main", 1), false)

		for range 60 {
			_, err := j.WithdrawNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			clock.Step(10 * time.Second)
		}
		Expect(s.clusters["main"].Names()).To(Equal([]string{"seed-a-etcd-main-0", "seed-a-etcd-main-1",
			"seed-a-etcd-main-2"}))
	})
})
