// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"bytes"
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// look is the result of one look at the shoot.
type look struct {
	world summary.ControlPlane
	err   error
}

var _ = Describe("Watch", func() {
	var (
		ctx    context.Context
		cancel context.CancelCauseFunc
		clk    *testclock.FakeClock
		shoot  *gardencorev1beta1.Shoot
		looks  []look
		done   int
		out    bytes.Buffer
		errs   bytes.Buffer

		now = func() look {
			return look{world: summary.ControlPlane{Now: metav1.NewTime(clk.Now()), Shoot: shoot.DeepCopy()}}
		}
		apply = func(number int, status gardencorev1beta1.ConditionStatus, reason steps.Reason) look {
			GinkgoHelper()
			clk.Step(time.Second)
			step := steps.Table()[number-1]
			updated, err := conditions.Apply(clk, steps.Conditions(shoot), conditions.Change{
				Step: step, Role: step.Owner, Status: status,
				Reason: reason, Message: "a message",
			})
			Expect(err).NotTo(HaveOccurred())
			shoot.Status.LiveMigration.Conditions = updated
			return now()
		}
		// loop looks as often as there is something to be seen; afterwards the context ends with the given cause.
		loop = func(end error) view.Loop {
			return view.Loop{
				Errors: &errs,
				Read: func(context.Context) (summary.ControlPlane, error) {
					if done == len(looks) {
						cancel(end)
						return summary.ControlPlane{}, context.Canceled
					}
					done++
					return looks[done-1].world, looks[done-1].err
				},
			}
		}
	)

	BeforeEach(func() {
		ctx, cancel = context.WithCancelCause(context.Background())
		DeferCleanup(func() { cancel(nil) })
		clk = testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC))
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live",
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{
				SeedName:      new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clk, nil)},
			},
		}
		looks, done = nil, 0
		out.Reset()
		errs.Reset()
	})

	Describe("Waiting", func() {
		var goal string
		status := func(end error) error {
			GinkgoHelper()
			parsed, err := view.ParseGoal(goal)
			Expect(err).NotTo(HaveOccurred())
			changes := view.Changes(&out, view.Options{})
			return view.Waiting{Loop: loop(end), Goal: parsed, Show: func(w summary.ControlPlane) error {
				changes(w)
				return nil
			}}.Do(ctx)
		}

		BeforeEach(func() { goal = "succeeded" })

		It("should write what changes, and nothing twice, and end with the migration", func() {
			looks = append(looks, now(), apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted), now())
			for number := 1; number <= 7; number++ {
				looks = append(looks, apply(number, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted))
			}
			shoot.Annotations, shoot.Status.SeedName = nil, new("seed-b")
			looks = append(looks, apply(8, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted), now())

			Expect(status(nil)).To(Succeed())
			Expect(done).To(Equal(len(looks)-1), "it should not look once more")
			Expect(out.String()).
				To(
					HavePrefix(
						`05:06:00Z  garden-demo/live Requested 0 % SourceEtcdPreparedForPeerJoin (source) Pending: Prepare the source etcd for members of the destination: not begun yet. Owner is the source.
05:06:01Z  garden-demo/live Processing 0 % SourceEtcdPreparedForPeerJoin (source) Started: a message
05:06:02Z  garden-demo/live Processing 10 % DestinationEtcdPeersJoined (destination) Pending`))
			Expect(out.String()).To(HaveSuffix("05:06:09Z  garden-demo/live Succeeded 100 %\n"))
		})

		DescribeTable("should end with a code", func(prepare func(), end error, code exit.Code, message string) {
			prepare()
			err := status(end)
			Expect(exit.Of(err)).To(Equal(code))
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
			Entry("overdue", func() {
				looks = append(looks, apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted),
					apply(1, gardencorev1beta1.ConditionFalse, steps.ReasonDeadlineExceeded))
			}, nil, exit.Operator, "docs/operations/SourceEtcdPreparedForPeerJoin.md"),
			Entry("aborted", func() {
				shoot.Annotations[steps.AnnotationAbort] = "true"
				updated, err := conditions.Abort(clk, steps.Conditions(shoot), conditions.AbortChange{
					Role: steps.Source, Reason: steps.ReasonAborted, Message: "a message",
				})
				Expect(err).NotTo(HaveOccurred())
				shoot.Status.LiveMigration.Conditions = updated
				looks = append(looks, now())
			}, nil, exit.No, "not completed: Aborted"),
			Entry("none", func() {
				shoot.Annotations, shoot.Spec.SeedName, shoot.Status.LiveMigration = nil, new("seed-a"), nil
				looks = append(looks, now())
			}, nil, exit.No, "not completed: None"),
			Entry("paused", func() {
				shoot.Annotations[steps.AnnotationPauseBefore] = steps.First().String()
				looks = append(looks, apply(1, gardencorev1beta1.ConditionUnknown, steps.ReasonPaused))
			}, nil, exit.Operator, "is paused before SourceEtcdPreparedForPeerJoin; resume it"),
			Entry("held until the timeout", func() {
				looks = append(looks, apply(1, gardencorev1beta1.ConditionUnknown, steps.ReasonVersionSkew))
			}, view.ErrTimeout, exit.Operator, "timed out; the last state is: Held"),
			Entry("a step that is not reached", func() {
				goal = "6"
				shoot.Annotations, shoot.Spec.SeedName, shoot.Status.LiveMigration = nil, new("seed-a"), nil
				looks = append(looks, now())
			}, nil, exit.No, "has not reached EtcdMigrationComplete: None"),
			Entry("timeout", func() { looks = append(looks, now()) }, view.ErrTimeout, exit.Timeout,
				"the last state is: Requested, SourceEtcdPreparedForPeerJoin"),
			Entry("timeout without a look", func() {}, view.ErrTimeout, exit.Timeout, "not known"),
			Entry("interrupt", func() { looks = append(looks, now()) }, errors.New("interrupted"), exit.Error,
				"interrupted"),
		)

		It("should end with the step that is waited for", func() {
			goal = "sourceetcdpreparedforpeerjoin"
			looks = append(looks, now(), apply(1, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted), now())
			Expect(status(nil)).To(Succeed())
			Expect(done).To(Equal(2))
		})

		It("should take an abort for what is waited for", func() {
			goal = "Aborted"
			shoot.Annotations[steps.AnnotationAbort] = "true"
			looks = append(looks, now())
			updated, err := conditions.Abort(clk, steps.Conditions(shoot), conditions.AbortChange{
				Role: steps.Source, Reason: steps.ReasonAborted, Message: "a message",
			})
			Expect(err).NotTo(HaveOccurred())
			shoot.Status.LiveMigration.Conditions = updated
			looks = append(looks, now())
			Expect(status(nil)).To(Succeed())
		})

		It("should look once, and not wait", func() {
			parsed, err := view.ParseGoal("1")
			Expect(err).NotTo(HaveOccurred())
			looks = append(looks, now(), now())
			err = view.Waiting{Loop: loop(nil), Goal: parsed, Once: true,
				Show: func(summary.ControlPlane) error { return nil }}.Do(ctx)
			Expect(exit.Of(err)).To(Equal(exit.No))
			Expect(err).To(MatchError(ContainSubstring("has not reached SourceEtcdPreparedForPeerJoin: Requested")))
			Expect(done).To(Equal(1))
		})

		It("should know steps and states", func() {
			_, err := view.ParseGoal("Elsewhere")
			Expect(err).To(MatchError(And(ContainSubstring(`there is no step "Elsewhere"`),
				HaveSuffix("the states are: Succeeded, Aborted, Paused"))))
		})

		It("should continue after a failed look, and report it once", func() {
			looks = append(looks, look{err: errors.New("away")}, look{err: errors.New("away")}, now())
			shoot.Annotations, shoot.Spec.SeedName = nil, new("seed-a")
			Expect(status(view.ErrTimeout)).NotTo(Succeed())
			Expect(errs.String()).To(Equal("away; retrying\n"))
			Expect(out.String()).NotTo(BeEmpty())
		})

		It("should not continue when there is no such shoot", func() {
			looks = append(looks, look{err: apierrors.NewNotFound(gardencorev1beta1.Resource("shoots"), "live")}, now())
			Expect(status(nil)).To(MatchError(ContainSubstring("not found")))
			Expect(done).To(Equal(1))
		})
	})

	Describe("Loop", func() {
		It("should wait between two looks", func() {
			looks = append(looks, now(), now())
			l := loop(nil)
			l.Clock, l.Interval = clk, 2*time.Second
			seen := make(chan struct{}, 2)
			result := make(chan error)
			go func() {
				result <- l.Run(ctx, func(summary.ControlPlane) bool {
					seen <- struct{}{}
					return len(seen) == 2
				})
			}()
			Eventually(clk.HasWaiters).Should(BeTrue())
			Expect(seen).To(HaveLen(1))
			clk.Step(2 * time.Second)
			Eventually(result).Should(Receive(Succeed()))
		})
	})
})
