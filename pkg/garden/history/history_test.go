// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	gardenhistory "github.com/livecpm/livecpm/pkg/garden/history"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

var _ = Describe("History", func() {
	var (
		ctx        = context.Background()
		clock      *testclock.FakeClock
		shoot      *gardencorev1beta1.Shoot
		garden     client.Client
		reconciler *gardenhistory.Reconciler
	)

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", UID: "1",
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec: gardencorev1beta1.ShootSpec{SeedName: ptr.To("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: ptr.To("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clock, nil)}},
		}
		garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot).Build()
		reconciler = &gardenhistory.Reconciler{Client: garden, APIReader: garden, Namespace: "garden", Clock: clock}
	})

	complete := func() {
		GinkgoHelper()
		all := steps.Conditions(shoot)
		for _, step := range steps.Table() {
			var err error
			all, err = conditions.Apply(clock, all, conditions.Change{Step: step, Role: step.Owner,
				Status: gardencorev1beta1.ConditionTrue, Reason: steps.ReasonCompleted, Message: "simulated"})
			Expect(err).NotTo(HaveOccurred())
		}
		shoot.Status.LiveMigration.Conditions = all
		shoot.Status.SeedName, shoot.Annotations = shoot.Spec.SeedName, nil
	}
	pass := func() error {
		_, err := reconciler.Reconcile(ctx, reconcile.Request{})
		return err
	}
	recorded := func() *corev1.ConfigMap {
		GinkgoHelper()
		configMap := &corev1.ConfigMap{}
		Expect(garden.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "livecpm-history"}, configMap)).To(Succeed())
		return configMap
	}
	records := func() []history.Record {
		GinkgoHelper()
		past, err := history.Decode(recorded().Data[history.Key])
		Expect(err).NotTo(HaveOccurred())
		return past.Records
	}

	It("should record the beginning and the end of a migration, and write nothing in between", func() {
		Expect(pass()).To(Succeed())
		Expect(records()).To(ConsistOf(HaveField("Result", BeEmpty())))
		version := recorded().ResourceVersion
		Expect(pass()).To(Succeed())
		Expect(recorded().ResourceVersion).To(Equal(version))

		complete()
		Expect(garden.Update(ctx, shoot)).To(Succeed())
		Expect(pass()).To(Succeed())
		Expect(records()).To(ConsistOf(And(HaveField("Result", history.Succeeded), HaveField("Source", "seed-a"),
			HaveField("Destination", "seed-b"))))
	})

	It("should write nothing as long as there is nothing to record", func() {
		shoot.Annotations, shoot.Status.LiveMigration = nil, nil
		shoot.Status.SeedName = shoot.Spec.SeedName
		Expect(garden.Update(ctx, shoot)).To(Succeed())
		Expect(pass()).To(Succeed())
		Expect(garden.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "livecpm-history"}, &corev1.ConfigMap{})).
			To(MatchError(ContainSubstring("not found")))
	})

	It("should leave what it cannot read", func() {
		Expect(garden.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden",
			Name: "livecpm-history"}, Data: map[string]string{history.Key: `{"kind":"Another"}`}})).To(Succeed())
		Expect(pass()).To(MatchError(And(ContainSubstring("garden/livecpm-history"), ContainSubstring("delete it"))))
		Expect(recorded().Data).To(HaveKeyWithValue(history.Key, `{"kind":"Another"}`))
	})

	It("should look when a migration begins, begins to wait or ends, and not at each step", func() {
		predicate := gardenhistory.Predicate()
		none := shoot.DeepCopy()
		none.Annotations, none.Status.LiveMigration = nil, nil
		none.Status.SeedName = none.Spec.SeedName
		step := shoot.DeepCopy()
		all, err := conditions.Apply(clock, steps.Conditions(step), conditions.Change{Step: steps.First(),
			Role: steps.First().Owner, Status: gardencorev1beta1.ConditionTrue, Reason: steps.ReasonCompleted})
		Expect(err).NotTo(HaveOccurred())
		step.Status.LiveMigration.Conditions = all
		begun := shoot.DeepCopy()
		waiting := step.DeepCopy()
		for _, finished := range steps.Table()[1:5] {
			all, err = conditions.Apply(clock, all, conditions.Change{Step: finished, Role: finished.Owner,
				Status: gardencorev1beta1.ConditionTrue, Reason: steps.ReasonCompleted})
			Expect(err).NotTo(HaveOccurred())
		}
		waiting.Status.LiveMigration.Conditions, err = conditions.Apply(clock, all, conditions.Change{
			Step: steps.Table()[5], Role: steps.Destination, Status: gardencorev1beta1.ConditionProgressing,
			Reason: steps.ReasonWaitingForDNS, Message: waits.ForCaches(clock.Now(), time.Minute, 0).String()})
		Expect(err).NotTo(HaveOccurred())
		complete()

		Expect(predicate.Create(event.CreateEvent{Object: none})).To(BeFalse())
		Expect(predicate.Create(event.CreateEvent{Object: shoot})).To(BeTrue())
		Expect(predicate.Update(event.UpdateEvent{ObjectOld: none, ObjectNew: begun})).To(BeTrue())
		Expect(predicate.Update(event.UpdateEvent{ObjectOld: begun, ObjectNew: step})).To(BeFalse())
		Expect(predicate.Update(event.UpdateEvent{ObjectOld: step, ObjectNew: waiting})).To(BeTrue())
		Expect(predicate.Update(event.UpdateEvent{ObjectOld: waiting, ObjectNew: waiting})).To(BeFalse())
		Expect(predicate.Update(event.UpdateEvent{ObjectOld: step, ObjectNew: shoot})).To(BeTrue())
	})
})
