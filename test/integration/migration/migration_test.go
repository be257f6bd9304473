// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gcmmigration "github.com/gardener/gardener/pkg/controllermanager/controller/shoot/migration"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/test/patience"
)

const (
	first  = gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin
	second = gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
	third  = gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer
	fourth = gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady
)

// The frame of the agents with its real gate and preflight, over the real API. Only the actions are recorded ones.
var _ = Describe("Migration", func() {
	var w *world

	BeforeEach(func() {
		SetDefaultEventuallyTimeout(patience.Eventually)
		SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	})

	handedOver := func(g Gomega) {
		shoot := w.shoot()
		g.Expect(shoot.Status.SeedName).To(HaveValue(Equal(seedB)))
		g.Expect(shoot.Annotations).NotTo(HaveKey(steps.AnnotationIntent))
		g.Expect(shoot.Generation).To(BeNumerically(">", shoot.Status.ObservedGeneration),
			"the gardenlet must have been asked to reconcile")
		for _, condition := range steps.ConditionTypes() {
			g.Expect(steps.Conditions(shoot)).To(
				ContainElement(And(HaveField("Type", condition), HaveField("Status", gardencorev1beta1.ConditionTrue))))
		}
	}
	reason := func(conditionType gardencorev1beta1.ConditionType) func() string {
		return func() string { return w.condition(conditionType).Reason }
	}

	It("should go through all steps, each done by its owner only, while gardener-controller-manager tries to start "+
		"the classic one", func() {
		w = newWorld("steps")
		refusals := make(chan error, 1)
		trying, stopTrying := context.WithCancel(ctx)
		var tries sync.WaitGroup
		tries.Go(func() {
			request := reconcile.Request{NamespacedName: w.key}
			for trying.Err() == nil {
				if _, err := (&gcmmigration.Reconciler{Client: garden.Client}).Reconcile(ctx, request); err != nil {
					select {
					case refusals <- err:
					default:
					}
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		DeferCleanup(func() {
			stopTrying()
			tries.Wait()
		})

		w.start(seedA)
		w.start(seedB)
		w.trigger()
		Eventually(handedOver).Should(Succeed())
		Expect(refusals).To(Receive(MatchError(ContainSubstring(gate.PolicyName))),
			"the attempt must have been made and refused")

		Expect(w.done()).To(Equal(steps.ConditionTypes()))
		w.checkWrites()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, step := range steps.Table() {
			Expect(w.actors[step.Condition]).To(Equal(map[steps.Role]bool{step.Owner: true}), string(step.Condition))
		}
		Expect(w.overlap).To(Equal(1), "two actions must never run at once")
		Expect(w.sourceMembers).To(BeZero(), "the source must have done its part in the destination's step")
		Expect(w.synced).To(And(HaveKeyWithValue(steps.Source, BeNumerically(">", 0)),
			HaveKeyWithValue(steps.Destination, BeNumerically(">", 0))))
	})

	It("should resume after the owner's agent was stopped in the middle of each step", func() {
		w = newWorld("resume")
		stops := map[steps.Role]func(){steps.Source: w.start(seedA), steps.Destination: w.start(seedB)}
		seeds := map[steps.Role]string{steps.Source: seedA, steps.Destination: seedB}
		for _, step := range steps.Table() {
			w.block(step.Condition)
		}
		w.trigger()

		for _, step := range steps.Table() {
			Eventually(w.entered).Should(Receive(Equal(step.Condition)))
			Expect(w.condition(step.Condition).Status).To(Equal(gardencorev1beta1.ConditionProgressing))
			stops[step.Owner]()
			Expect(w.condition(step.Condition).Status).To(Equal(gardencorev1beta1.ConditionProgressing),
				"a stopped agent must not publish its own end as a failure")
			stops[step.Owner] = w.start(seeds[step.Owner])
		}
		Eventually(handedOver).Should(Succeed())

		Expect(w.done()).To(Equal(steps.ConditionTypes()), "each step must be finished once, in its order")
		w.checkWrites()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, step := range steps.Table() {
			Expect(w.attempts[step.Condition]).To(BeNumerically(">=", 2), string(step.Condition))
		}
		Expect(w.overlap).To(Equal(1))
	})

	It("should stand still while one agent is away, and continue when it is back", func() {
		w = newWorld("away")
		stopB := w.start(seedB)
		w.trigger()
		Consistently(func() []gardencorev1beta1.Condition { return steps.Conditions(w.shoot()) }).
			WithTimeout(time.Second).Should(BeEmpty(), "the destination must wait for the source")

		stopB()
		w.start(seedA)
		Eventually(func() gardencorev1beta1.ConditionStatus { return w.condition(first).Status }).
			Should(Equal(gardencorev1beta1.ConditionTrue))
		Consistently(func() gardencorev1beta1.ConditionStatus { return w.condition(second).Status }).
			WithTimeout(time.Second).Should(Equal(gardencorev1beta1.ConditionUnknown),
			"the source must not do the destination's step")

		w.start(seedB)
		Eventually(handedOver).Should(Succeed())
		w.checkWrites()
	})

	It("should hold while the gate is open, and begin when it is closed", func() {
		w = newWorld("open")
		Expect(garden.RemovePolicies(ctx)).To(Succeed())
		DeferCleanup(func() { Expect(garden.InstallPolicies(ctx)).To(Succeed()) })

		w.start(seedA)
		w.start(seedB)
		w.trigger()
		Eventually(reason(first)).Should(Equal(string(steps.ReasonGateNotInForce)))
		Consistently(w.done).WithTimeout(time.Second).Should(BeEmpty())
		Expect(w.condition(first).Message).To(ContainSubstring("livecpm-garden"))
		Expect(w.shoot().Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeCreate))

		Expect(garden.InstallPolicies(ctx)).To(Succeed())
		Eventually(handedOver).Should(Succeed())
	})

	It("should hold while a prerequisite is not met, let the operator withdraw, and begin when it is met", func() {
		w = newWorld("unfit")
		shoot := w.shoot()
		patch := client.MergeFrom(shoot.DeepCopy())
		operation := shoot.Status.LastOperation
		operation.Type, operation.State = gardencorev1beta1.LastOperationTypeReconcile,
			gardencorev1beta1.LastOperationStateFailed
		Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())

		w.start(seedA)
		w.start(seedB)
		w.trigger()
		Eventually(reason(first)).Should(Equal(string(steps.ReasonShootNotReconciled)))
		Expect(w.condition(first).Message).To(ContainSubstring("Reconcile is Failed"))
		Expect(w.condition(first).Status).To(Equal(gardencorev1beta1.ConditionUnknown))
		Consistently(w.done).WithTimeout(time.Second).Should(BeEmpty())
		Expect(w.shoot().Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeReconcile),
			"a migration that has not begun must leave the last operation alone")

		shoot = w.shoot()
		Expect(garden.Bind(ctx, shoot, seedA)).To(Succeed())
		Consistently(w.done).WithTimeout(time.Second).Should(BeEmpty())

		shoot = w.shoot()
		patch = client.MergeFrom(shoot.DeepCopy())
		shoot.Status.LastOperation.State = gardencorev1beta1.LastOperationStateSucceeded
		Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())
		Expect(garden.Bind(ctx, shoot, seedB)).To(Succeed())
		Eventually(handedOver).Should(Succeed())
		w.checkWrites()
	})

	It("should hold between two steps while the gardenlets' versions differ, and while it is paused", func() {
		w = newWorld("skew")
		setVersion := func(version string) {
			seed := &gardencorev1beta1.Seed{}
			Expect(garden.Client.Get(ctx, client.ObjectKey{Name: seedB}, seed)).To(Succeed())
			patch := client.MergeFrom(seed.DeepCopy())
			seed.Status.Gardener.Version = version
			Expect(garden.Client.Status().Patch(ctx, seed, patch)).To(Succeed())
		}
		was := func() string {
			seed := &gardencorev1beta1.Seed{}
			Expect(garden.Client.Get(ctx, client.ObjectKey{Name: seedB}, seed)).To(Succeed())
			return seed.Status.Gardener.Version
		}()
		DeferCleanup(setVersion, was)

		shoot := w.shoot()
		patch := client.MergeFrom(shoot.DeepCopy())
		metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, steps.AnnotationPauseBefore, string(third))
		Expect(garden.Client.Patch(ctx, shoot, patch)).To(Succeed())

		w.start(seedA)
		w.start(seedB)
		w.trigger()
		Eventually(reason(third)).Should(Equal(string(steps.ReasonPaused)))
		setVersion("v1.150.1")
		Consistently(w.done).WithTimeout(time.Second).Should(Equal([]gardencorev1beta1.ConditionType{first, second}))

		shoot = w.shoot()
		patch = client.MergeFrom(shoot.DeepCopy())
		delete(shoot.Annotations, steps.AnnotationPauseBefore)
		Expect(garden.Client.Patch(ctx, shoot, patch)).To(Succeed())
		Eventually(reason(third)).Should(Equal(string(steps.ReasonVersionSkew)))
		Expect(w.condition(third).Message).To(ContainSubstring("v1.150.1"))
		Consistently(w.done).WithTimeout(time.Second).Should(HaveLen(2))

		setVersion(was)
		Eventually(handedOver).Should(Succeed())
		w.checkWrites()
	})

	It("should write its last operation again when a gardenlet that restarts has set it to Aborted", func() {
		w = newWorld("aborted")
		w.block(fourth)
		w.start(seedA)
		stopB := w.start(seedB)
		w.trigger()
		Eventually(w.entered).Should(Receive(Equal(fourth)))

		shoot := w.shoot()
		patch := client.MergeFrom(shoot.DeepCopy())
		shoot.Status.LastOperation.State = gardencorev1beta1.LastOperationStateAborted
		Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())
		Eventually(func() gardencorev1beta1.LastOperation { return *w.shoot().Status.LastOperation }).Should(And(
			HaveField("Type", gardencorev1beta1.LastOperationTypeLiveMigrate),
			HaveField("State", gardencorev1beta1.LastOperationStateProcessing),
		))

		stopB()
		w.start(seedB)
		Eventually(handedOver).Should(Succeed())
	})
})
