// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/simulation"
)

var (
	ctx = context.Background()
	clk = testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
)

func moving() *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live",
			Annotations: map[string]string{steps.AnnotationIntent: "true", "own": "kept"}},
		Spec:   gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
		Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a")},
	}
}

func done(steps.Step) migration.Action {
	return migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
		return steps.Done("done"), nil
	})
}

func work(steps.Role) simulation.Work { return simulation.Work{Step: done} }

var _ = Describe("Actions", func() {
	of := func(role steps.Role, step steps.Step) *migration.Migration {
		return &migration.Migration{Role: role, Step: step, DestinationSeed: "seed-b", Clock: clk, Shoot: moving()}
	}

	It("should be complete for both roles", func() {
		for role, actions := range simulation.Both(work) {
			Expect(actions.Missing(role)).To(BeEmpty())
			Expect(len(actions.Steps)+len(actions.Assists)).To(Equal(len(steps.Table())),
				"there is something to call in every step")
		}
	})

	It("should run in their own step only, and for their own role only", func() {
		first, last := steps.First(), steps.Last()
		action := simulation.Actions(first.Owner, work(first.Owner)).Steps[first.Condition]
		Expect(action.Run(ctx, of(first.Owner, first))).To(HaveField("Status", gardencorev1beta1.ConditionTrue))
		_, err := action.Run(ctx, of(first.Owner, last))
		Expect(err).To(MatchError(ContainSubstring("was called for the")))
		_, err = action.Run(ctx, of(first.Owner.Peer(), first))
		Expect(err).To(MatchError(ContainSubstring("was called for the")))

		assist := simulation.Actions(first.Owner.Peer(), work(first.Owner.Peer())).Assists[first.Condition]
		outcome, err := assist.Run(ctx, of(first.Owner.Peer(), first))
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeFalse())
		_, err = assist.Run(ctx, of(first.Owner, first))
		Expect(err).To(MatchError(ContainSubstring("was called for the")))
	})

	It("should not complete an abort that nobody expects", func() {
		for role, actions := range simulation.Both(work) {
			_, err := actions.Abort.Run(ctx, of(role, steps.AbortOf(role)))
			Expect(err).To(HaveOccurred())
		}
	})

	It("should hand over to the seed that the Shoot names, and to no other one", func() {
		owner := steps.Last().Owner
		handOver := simulation.Actions(owner, work(owner)).HandOver
		shoot := moving()
		Expect(handOver(of(owner, steps.Last()), shoot)).To(Succeed())
		Expect(shoot.Status.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(shoot.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded))

		shoot = moving()
		shoot.Spec.SeedName = new("seed-c")
		Expect(handOver(of(owner, steps.Last()), shoot)).To(MatchError(ContainSubstring("does not name seed seed-b")))
		Expect(simulation.Actions(owner.Peer(), work(owner.Peer())).HandOver).To(BeNil())
	})
})

var _ = Describe("Advance", func() {
	It("should make a step with each call, and hand over with the last one", func() {
		shoot := moving()
		Expect(simulation.Advance(clk, shoot)).To(Succeed())
		Expect(steps.Initialized(steps.Conditions(shoot))).To(BeTrue())
		Expect(steps.Begun(steps.Conditions(shoot), steps.First())).To(BeTrue())
		for _, step := range steps.Table() {
			current, unfinished := steps.Current(steps.Conditions(shoot))
			Expect(unfinished).To(BeTrue())
			Expect(current.Condition).To(Equal(step.Condition))
			Expect(shoot.Status.SeedName).To(HaveValue(Equal("seed-a")))
			Expect(simulation.Advance(clk, shoot)).To(Succeed())
		}
		_, unfinished := steps.Current(steps.Conditions(shoot))
		Expect(unfinished).To(BeFalse())
		Expect(steps.Conditions(shoot)).To(HaveLen(len(steps.Table())))
		Expect(shoot.Status.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(shoot.Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeRestore))
		Expect(shoot.Annotations).To(Equal(map[string]string{"own": "kept"}))

		Expect(simulation.Advance(clk, shoot)).NotTo(Succeed(), "it is over")
	})
})

var _ = Describe("NewReconciler", func() {
	options := func() simulation.Agent {
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build()
		config := &configv1alpha1.AgentConfiguration{}
		configv1alpha1.SetDefaults(config)
		return simulation.Agent{
			SeedName: "seed-a", GardenClient: garden, GardenAPIReader: garden, Recorder: events.NewFakeRecorder(1),
			Config: config.Controllers.LiveMigration, Version: "v1.150.0", Actions: simulation.Both(work),
		}
	}

	It("should be an agent to which nothing is missing", func() {
		Expect(simulation.NewReconciler(options())).NotTo(BeNil())
	})

	It("should refuse a role that lacks an action, as the real one does", func() {
		lacking := options()
		delete(lacking.Actions[steps.First().Owner].Steps, steps.First().Condition)
		_, err := simulation.NewReconciler(lacking)
		Expect(err).To(MatchError(ContainSubstring("step " + steps.First().String())))
	})
})
