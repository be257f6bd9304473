// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/livecpm/livecpm/pkg/garden/drain"
)

// version returns a Shoot in the given version. Its seed name tells which object it is.
func version(name, version, seed string) gardencorev1beta1.Shoot {
	return gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "garden-demo", UID: "uid-of-x", ResourceVersion: version},
		Spec:       gardencorev1beta1.ShootSpec{SeedName: &seed},
	}
}

var _ = Describe("Ahead", func() {
	var ahead drain.Ahead

	BeforeEach(func() {
		ahead = drain.Ahead{}
		written := version("x", "10", "written")
		ahead.Keep(&written)
	})

	merged := func(cached ...gardencorev1beta1.Shoot) []string {
		ahead.Merge(cached)
		out := []string{}
		for _, shoot := range cached {
			out = append(out, *shoot.Spec.SeedName)
		}
		return out
	}

	It("should hide what is older, as often as it is seen", func() {
		for range 2 {
			Expect(merged(version("w", "12", "cached"), version("x", "9", "cached"))).
				To(Equal([]string{"cached", "written"}))
		}
	})

	DescribeTable("should forget what the cache has caught up with", func(cached gardencorev1beta1.Shoot) {
		Expect(merged(cached)).To(Equal([]string{"cached"}))
		Expect(ahead).To(BeEmpty())
		Expect(merged(version("x", "9", "cached"))).To(Equal([]string{"cached"}))
	},
		Entry("the same version", version("x", "10", "cached")),
		Entry("a newer one, with more digits", version("x", "100", "cached")),
		Entry("one that cannot be compared", version("x", "ten", "cached")),
		Entry("another object of the name", func() gardencorev1beta1.Shoot {
			shoot := version("x", "9", "cached")
			shoot.UID = "another"
			return shoot
		}()),
	)

	It("should forget what is gone", func() {
		Expect(merged()).To(BeEmpty())
		Expect(ahead).To(BeEmpty())
	})
})

var _ = Describe("#SeedPredicate", func() {
	DescribeTable("updates", func(change func(*gardencorev1beta1.Seed), through bool) {
		before := &gardencorev1beta1.Seed{
			ObjectMeta: metav1.ObjectMeta{Name: "seed-a", Generation: 1, Annotations: map[string]string{"a": "b"}},
			Status: gardencorev1beta1.SeedStatus{
				Conditions: []gardencorev1beta1.Condition{{Type: "Drained", Status: "True", Reason: "Empty"}},
			},
		}
		after := before.DeepCopy()
		change(after)
		Expect(drain.SeedPredicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(through))
	},
		Entry("a sign of life", func(s *gardencorev1beta1.Seed) {
			s.ResourceVersion = "2"
			s.Status.Conditions[0].LastUpdateTime = metav1.NewTime(time.Unix(1, 0))
		}, false),
		Entry("an annotation", func(s *gardencorev1beta1.Seed) {
			s.Annotations["migration.gardener.cloud/drain"] = "true"
		}, true),
		Entry("the specification", func(s *gardencorev1beta1.Seed) { s.Generation++ }, true),
		Entry("the condition is lost", func(s *gardencorev1beta1.Seed) { s.Status.Conditions = nil }, true),
		Entry("another condition changes", func(s *gardencorev1beta1.Seed) {
			s.Status.Conditions = append(s.Status.Conditions,
				gardencorev1beta1.Condition{Type: "GardenletReady", Status: "False"})
		}, true),
		Entry("deletion", func(s *gardencorev1beta1.Seed) { s.DeletionTimestamp = &metav1.Time{} }, true),
	)
})

var _ = Describe("#ShootPredicate", func() {
	DescribeTable("updates", func(change func(*gardencorev1beta1.Shoot), through bool) {
		shoot := version("x", "1", "seed-a")
		shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: "Reconcile", State: "Processing",
			Progress: 10}
		before := &shoot
		after := before.DeepCopy()
		change(after)
		Expect(drain.ShootPredicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(through))
	},
		Entry("progress", func(s *gardencorev1beta1.Shoot) { s.Status.LastOperation.Progress = 20 }, false),
		Entry("another condition", func(s *gardencorev1beta1.Shoot) {
			s.Status.Conditions = append(s.Status.Conditions, gardencorev1beta1.Condition{Type: "APIServerAvailable"})
		}, false),
		Entry("success", func(s *gardencorev1beta1.Shoot) { s.Status.LastOperation.State = "Succeeded" }, true),
		Entry("arrival", func(s *gardencorev1beta1.Shoot) { s.Status.SeedName = new("seed-a") }, true),
		Entry("opt-out", func(s *gardencorev1beta1.Shoot) {
			s.Annotations = map[string]string{"migration.gardener.cloud/drain-opt-out": "true"}
		}, true),
		Entry("the specification", func(s *gardencorev1beta1.Shoot) { s.Generation++ }, true),
		Entry("hibernated", func(s *gardencorev1beta1.Shoot) { s.Status.IsHibernated = true }, true),
	)
})
