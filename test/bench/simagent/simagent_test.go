// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package simagent

import (
	"context"
	"os"
	"path/filepath"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/simulation"
)

var _ = Describe("actions", func() {
	const pace = time.Second
	var (
		ctx     = context.Background()
		clk     *clocktesting.FakeClock
		w       *work
		reports int
	)

	BeforeEach(func() {
		clk = clocktesting.NewFakeClock(time.Now())
		w = &work{options: Options{Pace: pace, GoFile: filepath.Join(GinkgoT().TempDir(), "go")},
			since: map[task]time.Time{}}
		reports = 0
	})

	actions := func(role steps.Role) migration.Actions { return simulation.Actions(role, w.ofRole(role)) }
	of := func(step steps.Step) *migration.Migration {
		return &migration.Migration{
			Shoot: &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, Step: step, Role: step.Owner,
			DestinationSeed: "seed-b", Clock: clk,
			Report: func(context.Context, steps.Reason, string) error { reports++; return nil },
		}
	}
	attempt := func(step steps.Step) steps.Outcome {
		GinkgoHelper()
		outcome, err := actions(step.Owner).Steps[step.Condition].Run(ctx, of(step))
		Expect(err).NotTo(HaveOccurred())
		return outcome
	}

	It("should have one for every step, with its owner, and for every assist with the other one", func() {
		source, destination := actions(steps.Source), actions(steps.Destination)
		for _, step := range steps.Table() {
			own, other := source, destination
			if step.Owner == steps.Destination {
				own, other = destination, source
			}
			Expect(own.Steps).To(HaveKey(step.Condition))
			Expect(other.Steps).NotTo(HaveKey(step.Condition))
			if len(step.Asks()) > 0 {
				Expect(other.Assists).To(HaveKey(step.Condition))
			}
		}
		Expect(source.HandOver).To(BeNil())
	})

	It("should take their time for a step", func() {
		for _, step := range steps.Table()[1:] {
			Expect(attempt(step).RequeueAfter).To(Equal(pace))
			clk.Step(pace / 2)
			outcome := attempt(step)
			Expect(outcome.Finished()).To(BeFalse())
			Expect(outcome.RequeueAfter).To(Equal(pace / 2))
			if len(step.Asks()) > 0 {
				Expect(step.AsksWith(outcome.Reason)).To(BeTrue())
			}
			clk.Step(pace / 2)
			Expect(attempt(step).Finished()).To(BeTrue())
		}
		Expect(reports).To(Equal(len(steps.Table())-1), "one for each step")
	})

	It("should hold the first step until all may continue", func() {
		Expect(attempt(steps.First()).Finished()).To(BeFalse())
		clk.Step(time.Hour)
		Expect(attempt(steps.First()).Finished()).To(BeFalse())
		Expect(os.WriteFile(w.options.GoFile, nil, 0o600)).To(Succeed())
		Expect(attempt(steps.First()).RequeueAfter).To(Equal(pace))
		clk.Step(pace)
		Expect(attempt(steps.First()).Finished()).To(BeTrue())
	})

	It("should hand over", func() {
		shoot := &gardencorev1beta1.Shoot{Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b")}}
		Expect(actions(steps.Destination).HandOver(of(steps.Last()), shoot)).To(Succeed())
		Expect(shoot.Status.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(shoot.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded))
	})
})
