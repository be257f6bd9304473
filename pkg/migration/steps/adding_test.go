// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// Adds a step for real, after the third one, and looks at what is derived from the model. Whatever has to be told of a
// new step by hand as well belongs into docs/development/adding-a-step.md.
var _ = Describe("A step that is added", func() {
	const index = 3
	var (
		added = steps.CopyImages()
		clk   = testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		all   []gardencorev1beta1.Condition
	)

	BeforeEach(func() {
		DeferCleanup(steps.Insert(added, index))
		all = conditions.Initialize(clk, nil)
	})

	It("should have a condition and its turn", func() {
		Expect(steps.ConditionTypes()).To(HaveLen(9))
		Expect(all).To(HaveLen(9))
		Expect(all[index].Type).To(Equal(added.Condition))
		for i, step := range steps.Table()[:index] {
			var err error
			all, err = conditions.Apply(clk, all, conditions.Change{
				Step: step, Role: step.Owner, Status: gardencorev1beta1.ConditionProgressing,
				Reason: steps.ReasonStarted, Message: "",
			})
			Expect(err).NotTo(HaveOccurred())
			all, err = conditions.Apply(clk, all, conditions.Change{
				Step: step, Role: step.Owner, Status: gardencorev1beta1.ConditionTrue,
				Reason: steps.ReasonCompleted, Message: "",
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(all[i].Status).To(Equal(gardencorev1beta1.ConditionTrue))
		}
		current, ok := steps.Current(all)
		Expect(ok).To(BeTrue())
		Expect(current.Condition).To(Equal(added.Condition))
		Expect(steps.Progress(all)).To(Equal(steps.Table()[index-1].Progress))

		_, err := conditions.Apply(clk, all, conditions.Change{
			Step: added, Role: steps.Source, Status: gardencorev1beta1.ConditionProgressing,
			Reason: steps.ReasonStarted, Message: "",
		})
		Expect(err).To(HaveOccurred(), "it is the destination's")
		operation := conditions.LastOperation(clk, nil, all, added)
		Expect(operation.Description).To(HavePrefix("Step 4 of 9 (destination): Copy the images"))
	})

	It("should have its guards", func() {
		for _, guard := range preflight.Guards() {
			Expect(guard.Effects).To(HaveLen(9), string(guard.Name))
			Expect(guard.Effects[index]).To(Equal(added.GuardOf(guard.Name).Effect), string(guard.Name))
		}
	})

	It("should have its ownership", func() {
		for _, set := range ownership.Sets() {
			Expect(set.Owners).To(HaveLen(9), string(set.Name))
			Expect(set.Owners[index]).To(Equal(added.Ownership[set.Name]), string(set.Name))
		}
	})

	It("should be seen by people", func() {
		found, err := summary.FindStep("DestinationImagesCopied")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Title).To(Equal(added.Title))
		Expect(pages.OfStep(added)).To(HaveSuffix("/docs/operations/DestinationImagesCopied.md"))
		seen := summary.Summarize(&gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec:       gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{
				SeedName:      new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: all},
			},
		}, clk.Now())
		Expect(seen.Steps).To(HaveLen(9))
	})

	It("should need an action of its owner, and of nobody else", func() {
		action := migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Outcome{}, nil
		})
		complete := func(role steps.Role) migration.Actions {
			actions := migration.Actions{
				Steps:         map[gardencorev1beta1.ConditionType]migration.Action{},
				Assists:       map[gardencorev1beta1.ConditionType]migration.Action{},
				Abort:         action,
				Abandon:       action,
				AbandonSource: action,
				Clear:         action,
				HandOver:      func(*migration.Migration, *gardencorev1beta1.Shoot) error { return nil },
			}
			for _, step := range steps.Table() {
				if step.Condition != added.Condition {
					actions.Steps[step.Condition], actions.Assists[step.Condition] = action, action
				}
			}
			return actions
		}
		Expect(complete(steps.Source).Missing(steps.Source)).To(BeEmpty())
		actions := complete(steps.Destination)
		Expect(actions.Missing(steps.Destination)).To(ConsistOf("step DestinationImagesCopied"))
		actions.Steps[added.Condition] = action
		Expect(actions.Missing(steps.Destination)).To(BeEmpty())
	})
})
