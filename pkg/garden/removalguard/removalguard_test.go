// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removalguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/removalguard"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/calls"
)

func migrating(name, source, destination string) *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: name,
			Annotations: map[string]string{steps.AnnotationIntent: "true"}},
		Spec:   gardencorev1beta1.ShootSpec{SeedName: &destination},
		Status: gardencorev1beta1.ShootStatus{SeedName: &source},
	}
}

var _ = Describe("Reconciler", func() {
	var (
		ctx        = context.Background()
		writes     int
		garden     client.Client
		reconciler *removalguard.Reconciler
	)

	BeforeEach(func() {
		writes = 0
		base := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithObjects(migrating("one", "seed-a", "seed-b"), migrating("two", "seed-c", "seed-b")).Build()
		garden = interceptor.NewClient(base, calls.Before(func(call calls.Call) error {
			if call.Writes() {
				writes++
			}
			return nil
		}))
		reconciler = &removalguard.Reconciler{Client: garden, APIReader: garden, Namespace: "garden", Drains: garden,
			Clock: testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	})

	pass := func() {
		GinkgoHelper()
		result, err := reconciler.Reconcile(ctx, reconcile.Request{})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically(">", 0))
	}
	data := func() map[string]string {
		GinkgoHelper()
		configMap := &corev1.ConfigMap{}
		Expect(garden.Get(ctx, client.ObjectKey{Namespace: "garden", Name: removalguard.ConfigMapName}, configMap)).
			To(Succeed())
		return configMap.Data
	}

	It("should write down both seeds of every migration, and take away what is over", func() {
		pass()
		Expect(data()).To(Equal(map[string]string{"seed-a": "garden-demo/one",
			"seed-b": "garden-demo/one, garden-demo/two", "seed-c": "garden-demo/two"}))

		Expect(garden.Delete(ctx, migrating("one", "seed-a", "seed-b"))).To(Succeed())
		pass()
		Expect(data()).To(Equal(map[string]string{"seed-b": "garden-demo/two", "seed-c": "garden-demo/two"}))

		Expect(garden.Delete(ctx, migrating("two", "seed-c", "seed-b"))).To(Succeed())
		pass()
		Expect(data()).To(BeEmpty())
	})

	It("should write only what changes", func() {
		pass()
		pass()
		Expect(writes).To(Equal(1))
	})

	It("should write again what somebody else has taken away", func() {
		pass()
		configMap := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: removalguard.ConfigMapName},
		}
		Expect(garden.Delete(ctx, configMap)).To(Succeed())
		pass()
		Expect(data()).To(HaveKey("seed-a"))
	})

	It("should measure what is in flight, by seed and phase", func() {
		pass()
		Expect(measured()).To(ConsistOf("phase=Requested,seed=seed-a 1", "phase=Requested,seed=seed-b 2",
			"phase=Requested,seed=seed-c 1", "before=removal 0", "before=upgrade 0"))

		for _, name := range []string{"one", "two"} {
			Expect(garden.Delete(ctx, migrating(name, "seed-a", "seed-b"))).To(Succeed())
		}
		pass()
		Expect(measured()).To(ConsistOf("before=removal 1", "before=upgrade 1"))
	})

	It("should count a drain that is requested, unless nobody drains", func() {
		for _, name := range []string{"one", "two"} {
			Expect(garden.Delete(ctx, migrating(name, "seed-a", "seed-b"))).To(Succeed())
		}
		Expect(garden.Create(ctx, &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a",
			Annotations: map[string]string{drain.AnnotationDrain: "true"}}})).To(Succeed())
		pass()
		Expect(measured()).To(ConsistOf("before=removal 0", "before=upgrade 0"))

		reconciler.Drains = nil
		pass()
		Expect(measured()).To(ConsistOf("before=removal 1", "before=upgrade 1"))
	})

	It("should measure nothing when it could not look", func() {
		pass()
		reconciler.Drains = interceptor.NewClient(garden.(client.WithWatch),
			calls.Refuse(errors.New("no route"), calls.List))
		_, err := reconciler.Reconcile(ctx, reconcile.Request{})
		Expect(err).To(MatchError(ContainSubstring("failed to list the Seeds that are to be drained: no route")))
		Expect(measured()).To(BeEmpty())
		Expect(data()).To(HaveKey("seed-a"))
	})

	It("should not say that nothing is in flight when it could not look", func() {
		pass()
		reconciler.Client = interceptor.NewClient(garden.(client.WithWatch),
			calls.Refuse(errors.New("no route"), calls.List))
		_, err := reconciler.Reconcile(ctx, reconcile.Request{})
		Expect(err).To(MatchError(ContainSubstring("no route")))
		Expect(data()).To(HaveKey("seed-a"))
	})
})

var _ = Describe("#Predicate", func() {
	It("should let through what changes whose agents are needed, and nothing else", func() {
		p := removalguard.Predicate()
		moving, resting := migrating("live", "seed-a", "seed-b"), migrating("live", "seed-b", "seed-b")
		touched := moving.DeepCopy()
		touched.Labels = map[string]string{"a": "b"}

		Expect(p.Create(event.CreateEvent{Object: moving})).To(BeTrue())
		Expect(p.Create(event.CreateEvent{Object: resting})).To(BeFalse())
		Expect(p.Update(event.UpdateEvent{ObjectOld: moving, ObjectNew: resting})).To(BeTrue())
		Expect(p.Update(event.UpdateEvent{ObjectOld: resting, ObjectNew: moving})).To(BeTrue())
		Expect(p.Update(event.UpdateEvent{ObjectOld: moving, ObjectNew: migrating("live", "seed-a", "seed-c")})).
			To(BeTrue())
		Expect(p.Update(event.UpdateEvent{ObjectOld: moving, ObjectNew: touched})).To(BeFalse())
		held := moving.DeepCopy()
		held.Annotations[steps.AnnotationPauseBefore] = steps.First().String()
		held.Status.LiveMigration = &gardencorev1beta1.LiveMigration{}
		for _, step := range steps.Table() {
			held.Status.LiveMigration.Conditions = append(held.Status.LiveMigration.Conditions,
				gardencorev1beta1.Condition{Type: step.Condition, Status: gardencorev1beta1.ConditionUnknown,
					Reason: string(steps.ReasonPaused)})
		}
		Expect(p.Update(event.UpdateEvent{ObjectOld: moving, ObjectNew: held})).To(BeTrue(), "another phase")
		left := resting.DeepCopy()
		left.Annotations[steps.AnnotationLeftBehind] = "seed-a"
		Expect(p.Update(event.UpdateEvent{ObjectOld: left, ObjectNew: resting})).To(BeTrue(), "cleaned up")
		Expect(p.Delete(event.DeleteEvent{Object: moving})).To(BeTrue())
		Expect(p.Delete(event.DeleteEvent{Object: resting})).To(BeFalse())
	})
})

var _ = Describe("#DrainPredicate", func() {
	It("should let through when a drain begins or ends to be requested, and nothing else", func() {
		p := removalguard.DrainPredicate()
		seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}}
		draining := seed.DeepCopy()
		draining.Annotations = map[string]string{drain.AnnotationDrain: "true"}
		Expect(p.Update(event.UpdateEvent{ObjectOld: seed, ObjectNew: draining})).To(BeTrue())
		Expect(p.Update(event.UpdateEvent{ObjectOld: draining, ObjectNew: seed})).To(BeTrue())
		Expect(p.Update(event.UpdateEvent{ObjectOld: draining, ObjectNew: draining})).To(BeFalse())
		Expect(p.Create(event.CreateEvent{Object: seed})).To(BeFalse())
	})
})

// measured returns what the metrics of what is in flight say: labels and value.
func measured() []string {
	GinkgoHelper()
	families, err := runtimemetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, family := range families {
		if family.GetName() != "livecpm_migrations_in_flight" && family.GetName() != "livecpm_idle" {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			out = append(out, fmt.Sprintf("%s %v", strings.Join(labels, ","), metric.GetGauge().GetValue()))
		}
	}
	return out
}
