// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("A sign of life of the source", func() {
	const fifth = gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords

	var (
		w *world
		// joining is what the destination does in step 6 until the source has gone.
		joining = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Waiting(time.Second, steps.ReasonJoiningLastEtcdMember, "joining"), nil
		}
	)

	seen := func() time.Time { return steps.SeenAt(steps.Conditions(w.shoot()), steps.Source) }
	// now is the time as a Shoot can hold it.
	now := func() time.Time { return w.clock.Now().Truncate(time.Second) }

	BeforeEach(func() {
		w = newWorld()
		w.goTo(sixth)
		w.actions["destination step EtcdMigrationComplete"] = joining
		w.mustPass(seedB)
		w.events()
	})

	It("should be given while the last members join, in a condition of its own, and in nothing else", func() {
		before := w.shoot()
		w.clock.Step(time.Minute)
		w.mustPass(seedA)
		Expect(seen()).To(BeTemporally("==", now()))

		after := w.shoot()
		given := w.condition(fifth)
		Expect(given.LastUpdateTime.Time).To(BeTemporally("==", now()))
		for i, condition := range steps.Conditions(before) {
			if condition.Type == fifth {
				condition.LastUpdateTime = given.LastUpdateTime
			}
			Expect(steps.Conditions(after)[i]).To(Equal(condition))
		}
		Expect(after.Status.LastOperation).To(Equal(before.Status.LastOperation))
		Expect(w.events()).To(BeEmpty())
		Expect(w.ran).To(Equal([]string{"destination step EtcdMigrationComplete"}))
	})

	It("should not be given more often than every ten seconds", func() {
		w.clock.Step(time.Minute)
		w.mustPass(seedA)
		writes := len(w.statusWrites)
		w.clock.Step(9 * time.Second)
		w.mustPass(seedA)
		Expect(w.statusWrites).To(HaveLen(writes))
		w.clock.Step(time.Second)
		w.mustPass(seedA)
		Expect(w.statusWrites).To(HaveLen(writes + 1))
	})

	It("should be given beside a long part in the step of the peer", func() {
		w.actions["destination step EtcdMigrationComplete"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(time.Second, steps.ReasonReadyForSourceMemberRemoval, "retire"), nil
		}
		w.mustPass(seedB)
		w.actions["source assist EtcdMigrationComplete"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			former := seen()
			Eventually(w.clock.HasWaiters).Should(BeTrue())
			w.clock.Step(15 * time.Second)
			Eventually(seen).Should(BeTemporally(">", former))
			return steps.Outcome{}, nil
		}
		w.mustPass(seedA)
	})

	DescribeTable("is not given", func(prepare func()) {
		prepare()
		former := seen()
		w.clock.Step(time.Minute)
		_, _ = w.pass(seedA)
		Expect(seen()).To(Equal(former))
	},
		Entry("if the API server of the seed does not answer", func() {
			w.actions["source always"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
				return steps.Outcome{}, errBoom
			}
		}),
		Entry("if the gate is not proved, with which the agent would do nothing", func() { w.gateErr = errBoom }),
		Entry("in a step in which the destination does not rely on it", func() {
			w = newWorld()
			w.goTo(second)
			w.actions["destination step DestinationEtcdPeersJoined"] = joining
			w.mustPass(seedB)
		}),
		Entry("before the destination has begun", func() {
			w = newWorld()
			w.goTo(sixth)
		}),
	)

	It("should be seen by the destination's action, which has read the Shoot long ago", func() {
		var before, after time.Time
		w.actions["destination step EtcdMigrationComplete"] = func(
			ctx context.Context, m *migration.Migration,
		) (steps.Outcome, error) {
			var err error
			before, err = m.PeerSeen(ctx)
			Expect(err).NotTo(HaveOccurred())
			w.clock.Step(time.Minute)
			w.mustPass(seedA)
			after, err = m.PeerSeen(ctx)
			Expect(err).NotTo(HaveOccurred())
			return joining(ctx, m)
		}
		w.mustPass(seedB)
		Expect(before).To(BeTemporally("==", w.condition(fifth).LastTransitionTime.Time))
		Expect(after).To(BeTemporally("==", now()))
	})

	It("should let the destination write as before", func() {
		w.clock.Step(time.Minute)
		w.mustPass(seedA)
		delete(w.actions, "destination step EtcdMigrationComplete")
		w.mustPass(seedB)
		Expect(w.condition(sixth).Status).To(Equal(isTrue))
	})
})
