// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package summary_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("#InFlightOf", func() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type change = func(*gardencorev1beta1.Shoot)
	shoot := func(name, source, destination string, changes ...change) gardencorev1beta1.Shoot {
		s := gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: name,
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec:   gardencorev1beta1.ShootSpec{SeedName: &destination},
			Status: gardencorev1beta1.ShootStatus{SeedName: &source},
		}
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	condition := func(of steps.Step, status gardencorev1beta1.ConditionStatus, reason steps.Reason) change {
		return func(s *gardencorev1beta1.Shoot) {
			s.Status.LiveMigration = &gardencorev1beta1.LiveMigration{}
			for _, step := range steps.Table() {
				c := gardencorev1beta1.Condition{Type: step.Condition, Status: gardencorev1beta1.ConditionUnknown,
					Reason: string(steps.ReasonPending)}
				if step.Condition == of.Condition {
					c.Status, c.Reason = status, string(reason)
				}
				s.Status.LiveMigration.Conditions = append(s.Status.LiveMigration.Conditions, c)
			}
		}
	}
	classic := func(s *gardencorev1beta1.Shoot) { s.Annotations = nil }
	left := func(seed string) change {
		return func(s *gardencorev1beta1.Shoot) { s.Annotations = map[string]string{steps.AnnotationLeftBehind: seed} }
	}
	seed := func(name string, annotations map[string]string) gardencorev1beta1.Seed {
		return gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	draining := map[string]string{drain.AnnotationDrain: "true"}
	idle := summary.InFlight{MayUpgrade: true, MayRemove: true, Migrations: []summary.Moving{}, Drains: []string{},
		LeftBehind: []summary.Left{}}

	It("should find nothing where nothing is in flight", func() {
		Expect(summary.InFlightOf(nil, nil, "", now)).To(Equal(idle))
		Expect(summary.InFlightOf([]gardencorev1beta1.Shoot{
			shoot("rests", "seed-a", "seed-a"), shoot("classic", "seed-a", "seed-b", classic),
			shoot("aborted", "seed-a", "seed-b",
				condition(steps.AbortOf(steps.Source), gardencorev1beta1.ConditionFalse, steps.ReasonAborted)),
		}, []gardencorev1beta1.Seed{seed("seed-a", nil)}, "", now)).To(Equal(idle))
	})

	It("should tell each migration with its state, in order", func() {
		Expect(summary.InFlightOf([]gardencorev1beta1.Shoot{
			shoot("two", "seed-a", "seed-c"),
			shoot("one", "seed-a", "seed-b",
				condition(steps.First(), gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)),
		}, nil, "", now)).To(Equal(summary.InFlight{Migrations: []summary.Moving{
			{Namespace: "garden-demo", Name: "one", Source: "seed-a", Destination: "seed-b", State: summary.Processing,
				Step: steps.First().String(), Reason: string(steps.ReasonStarted)},
			{Namespace: "garden-demo", Name: "two", Source: "seed-a", Destination: "seed-c", State: summary.Requested},
		}, Drains: []string{}, LeftBehind: []summary.Left{}}))
	})

	It("should not permit an upgrade while a drain would start something", func() {
		out := summary.InFlightOf(nil, []gardencorev1beta1.Seed{seed("seed-b", draining), seed("seed-a", draining),
			seed("seed-c", nil)}, "", now)
		Expect(out.Drains).To(Equal([]string{"seed-a", "seed-b"}))
		Expect(out.MayUpgrade || out.MayRemove).To(BeFalse())
	})

	It("should not permit a removal while an agent has to clean up what was left behind", func() {
		out := summary.InFlightOf([]gardencorev1beta1.Shoot{shoot("live", "seed-a", "seed-a", left("seed-b"))}, nil, "",
			now)
		Expect(out.LeftBehind).To(Equal([]summary.Left{{Namespace: "garden-demo", Name: "live", Seed: "seed-b"}}))
		Expect(out.MayUpgrade).To(BeTrue())
		Expect(out.MayRemove).To(BeFalse())
	})

	DescribeTable("should count what one seed takes part in alone", func(name string, upgrade, remove bool) {
		out := summary.InFlightOf([]gardencorev1beta1.Shoot{shoot("live", "seed-a", "seed-b"),
			shoot("other", "seed-c", "seed-c", left("seed-d"))}, []gardencorev1beta1.Seed{seed("seed-e", draining)},
			name, now)
		Expect(out.Seed).To(Equal(name))
		Expect(out.MayUpgrade).To(Equal(upgrade))
		Expect(out.MayRemove).To(Equal(remove))
	},
		Entry("the source", "seed-a", false, false),
		Entry("the destination", "seed-b", false, false),
		Entry("a seed with other shoots", "seed-c", true, true),
		Entry("a seed that was lost", "seed-d", true, false),
		Entry("a seed that is drained", "seed-e", false, false),
		Entry("another seed", "seed-f", true, true),
	)
})
