// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Abort", func() {
	var (
		w *world

		request = func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationAbort] = "true" })
		}
		both = func(times int) {
			GinkgoHelper()
			for range times {
				w.clock.Step(time.Second)
				w.mustPass(seedA)
				w.mustPass(seedB)
			}
		}
	)

	BeforeEach(func() { w = newWorld() })

	It("should undo the destination's part first and then the source's", func() {
		w.actions["destination step DestinationEtcdPeersJoined"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonJoiningEtcdMembers, "4 of 5"), nil
		}
		w.goTo(second)
		w.mustPass(seedB)
		w.ran = nil
		request()

		w.mustPass(seedA)
		Expect(w.ran).To(BeEmpty(), "the source waits for the destination")
		w.mustPass(seedB)
		Expect(w.ran).To(Equal([]string{"destination abort DestinationEtcdPeersJoined"}))
		Expect(w.condition(second).Reason).To(Equal("Withdrawn"))
		Expect(w.condition(second).Status).To(Equal(isFalse))
		Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateProcessing))

		w.mustPass(seedA)
		Expect(w.ran[1:]).To(Equal([]string{"source abort SourceEtcdPreparedForPeerJoin"}))
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
		Expect(w.condition(first).Message).
			To(ContainSubstring("Set spec.seedName back through shoots/binding and remove"))
		Expect(w.shoot().Status.LastOperation).To(HaveValue(And(
			HaveField("Type", gardencorev1beta1.LastOperationTypeLiveMigrate),
			HaveField("State", gardencorev1beta1.LastOperationStateAborted),
		)))
		Expect(w.shoot().Status.SeedName).To(HaveValue(Equal(seedA)))

		both(3)
		Expect(w.ran).To(HaveLen(2), "nothing is done after it")
	})

	It("should need no more than the source while the destination has not begun", func() {
		w.actions["source step SourceEtcdPreparedForPeerJoin"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonWaitingForSourceEtcd, "2 of 3"), nil
		}
		w.mustPass(seedA)
		request()
		both(3)
		Expect(w.ran).To(Equal([]string{"source step SourceEtcdPreparedForPeerJoin",
			"source abort SourceEtcdPreparedForPeerJoin"}))
		Expect(w.statuses()).To(Equal("FUUUUUUU"))
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
	})

	DescribeTable("should let the destination withdraw that was asked to prepare before its turn",
		func(finishFirst bool) {
			w.actions["source step SourceEtcdPreparedForPeerJoin"] = func(
				context.Context, *migration.Migration,
			) (steps.Outcome, error) {
				return steps.Waiting(0, steps.ReasonShootStatePersisted, "the snapshot is being taken"), nil
			}
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationPauseBefore] = string(second) })
			w.mustPass(seedA)
			if finishFirst {
				delete(w.actions, "source step SourceEtcdPreparedForPeerJoin")
				w.mustPass(seedA)
				w.mustPass(seedB)
				Expect(w.condition(second).Reason).To(Equal("Paused"), "the condition says nothing of the preparation")
			}
			w.ran = nil
			request()
			w.mustPass(seedA)
			Expect(w.ran).To(BeEmpty(), "the source waits for the destination")
			w.mustPass(seedB)
			w.mustPass(seedA)
			Expect(w.ran).To(Equal([]string{"destination abort DestinationEtcdPeersJoined",
				"source abort SourceEtcdPreparedForPeerJoin"}))
			Expect(w.statuses()).To(Equal("FFUUUUUU"))
			Expect(w.condition(second).Reason).To(Equal("Withdrawn"))
			Expect(w.condition(first).Reason).To(Equal("Aborted"))
		},
		Entry("in the first step", false),
		Entry("before its own step", true),
	)

	It("should do nothing at all before the migration began", func() {
		request()
		before := w.shoot().Status.LastOperation
		both(2)
		Expect(w.ran).To(BeEmpty())
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
		Expect(w.shoot().Status.LastOperation).To(Equal(before))
	})

	It("should be carried out although the gate is open", func() {
		w.goTo(second)
		request()
		w.gateErr = errBoom
		both(2)
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
	})

	for number, step := range map[int]gardencorev1beta1.ConditionType{
		3: gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer,
		4: gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady,
		5: gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords,
		6: gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
	} {
		It(fmt.Sprintf("should undo both parts when step %d is the next", number), func() {
			w.goTo(step)
			request()
			both(3)
			Expect(w.ran).To(Equal([]string{"destination abort DestinationEtcdPeersJoined",
				"source abort SourceEtcdPreparedForPeerJoin"}))
			Expect(w.condition(first).Reason).To(Equal("Aborted"))
			Expect(w.condition(second).Reason).To(Equal("Withdrawn"))
			Expect(steps.Begun(steps.Conditions(w.shoot()), steps.Table()[number-1])).To(BeFalse())
		})
	}

	It("should undo both parts in the middle of a later step, whose condition says that there is something to undo",
		func() {
			const fourth = gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady
			w.actions["destination step "+string(fourth)] = func(
				context.Context, *migration.Migration,
			) (steps.Outcome, error) {
				return steps.Waiting(0, steps.ReasonDeployingKubeAPIServer, "0 of 3"), nil
			}
			w.goTo(fourth)
			w.mustPass(seedB)
			w.ran = nil
			request()
			w.actions["source abort"] = func(_ context.Context, m *migration.Migration) (steps.Outcome, error) {
				Expect(steps.Begun(steps.Conditions(m.Shoot), steps.Table()[3])).To(BeTrue())
				return steps.Done("as before"), nil
			}
			both(2)
			Expect(w.ran).To(Equal([]string{"destination abort DestinationEtcdPeersJoined",
				"source abort SourceEtcdPreparedForPeerJoin"}))
			Expect(w.condition(first).Reason).To(Equal("Aborted"))
		})

	It("should be too late once DNS moves", func() {
		const sixth = gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete
		w.actions["destination step "+string(sixth)] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			delete(w.actions, "destination step "+string(sixth))
			return steps.Waiting(0, steps.ReasonSwitchingDNSRecords, "moving"), nil
		}
		w.goTo(sixth)
		w.mustPass(seedB)
		request()
		both(8)
		Expect(w.statuses()).To(Equal("TTTTTTTT"))
		Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationAbort))
	})

	It("should be too late once etcd members move first", func() {
		const fourth = gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady
		w.actions["destination step "+string(fourth)] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonJoiningLastEtcdMember, "5 of 6"), nil
		}
		w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationForceShrink] = "true" })
		w.goTo(fourth)
		w.mustPass(seedB)
		request()
		both(2)
		Expect(w.condition(fourth).Reason).To(Equal("JoiningLastEtcdMember"))
		Expect(w.ran).NotTo(ContainElement(ContainSubstring("abort")))
	})

	It("should continue after failures, and say what failed", func() {
		w.actions["destination step DestinationEtcdPeersJoined"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonJoiningEtcdMembers, "4 of 5"), nil
		}
		w.goTo(second)
		w.mustPass(seedB)
		request()
		w.actions["destination abort"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Outcome{}, errBoom
		}
		_, err := w.pass(seedB)
		Expect(err).To(MatchError(errBoom))
		Expect(w.condition(second).Reason).To(Equal("Aborting"))
		Expect(w.condition(second).Message).To(Equal("failed to move the world"))
		Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateError))

		w.actions["destination abort"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Waiting(2*time.Second, steps.ReasonQuorumAtRisk, "3 of 5"), nil
		}
		Expect(w.mustPass(seedB).RequeueAfter).To(Equal(2 * time.Second))
		Expect(w.condition(second).Message).To(Equal("3 of 5"))

		delete(w.actions, "destination abort")
		both(2)
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
	})

	It("should end a running step", func() {
		w.goTo(second)
		r := w.agent(seedB)
		r.Clock = clock.RealClock{}
		r.Config.SyncPeriod = &metav1.Duration{Duration: 5 * time.Millisecond}
		// What accompanies the action proves the gate with every look that finds no reason to end it.
		looks := make(chan struct{})
		r.Gate = watched{w, func() {
			select {
			case looks <- struct{}{}:
			default:
			}
		}}
		ended := false
		w.actions["destination step DestinationEtcdPeersJoined"] = func(
			ctx context.Context, _ *migration.Migration,
		) (steps.Outcome, error) {
			request()
			for range 50 {
				select {
				case <-ctx.Done():
					ended = true
					return steps.Outcome{}, ctx.Err()
				case <-looks:
				}
			}
			return steps.Done("looked at fifty times and not ended"), nil
		}
		_, err := w.passOf(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(ended).To(BeTrue())
		Expect(w.condition(second).Reason).To(Equal("Started"), "what ends early says nothing of the step")
		both(2)
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
	})

	It("should not let a step finish that was aborted meanwhile", func() {
		w.goTo(second)
		w.actions["destination step DestinationEtcdPeersJoined"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			request()
			return steps.Done("5 of 5"), nil
		}
		w.mustPass(seedB)
		Expect(w.condition(second).Status).To(Equal(isProgressing))
	})

	Describe("afterwards", func() {
		BeforeEach(func() {
			w.goTo(second)
			request()
			both(2)
			Expect(w.condition(first).Reason).To(Equal("Aborted"))
			w.ran = nil
		})

		It("should tidy the annotations up when the seed name is set back", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Spec.SeedName = ptr.To(seedA) })
			both(1)
			Expect(annotationsOf(w.shoot())).To(Equal(map[string]string{"other": "kept"}))
			Expect(w.ran).To(BeEmpty())
		})

		It("should leave the shoot to the classic migration, and tidy up after it", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationIntent) })
			before := w.shoot()
			both(2)
			Expect(w.shoot()).To(Equal(before))
			w.change(func(s *gardencorev1beta1.Shoot) { s.Status.SeedName = ptr.To(seedB) })
			both(1)
			Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationAbort))
		})

		It("should migrate live once more when the annotation is removed", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationAbort) })
			both(10)
			Expect(w.statuses()).To(Equal("TTTTTTTT"))
		})
	})
})

var _ = Describe("Retry", func() {
	It("should start the clock of the step again, once", func() {
		w := newWorld()
		w.actions["destination step DestinationEtcdPeersJoined"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Outcome{}, errBoom
		}
		w.goTo(second)
		r := w.agent(seedB)
		r.Config.StepDeadlines = map[string]metav1.Duration{string(second): {Duration: time.Minute}}
		_, _ = w.passOf(r)
		w.clock.Step(2 * time.Minute)
		_, _ = w.passOf(r)
		Expect(w.condition(second).Status).To(Equal(isFalse))

		w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations["gardener.cloud/operation"] = "retry" })
		_, _ = w.pass(seedA)
		Expect(w.shoot().Annotations).To(HaveKey("gardener.cloud/operation"), "it is the owner's")
		_, _ = w.passOf(r)
		Expect(w.condition(second).Status).To(Equal(isProgressing))
		Expect(w.condition(second).Reason).To(Equal("ActionFailed"), "it was tried at once")
		Expect(w.shoot().Annotations).NotTo(HaveKey("gardener.cloud/operation"))

		w.clock.Step(2 * time.Minute)
		_, _ = w.passOf(r)
		Expect(w.condition(second).Status).To(Equal(isFalse))
	})
})
