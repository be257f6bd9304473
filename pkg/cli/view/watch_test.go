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

	Describe("Wait", func() {
		status := func(end error) error { return view.Wait(ctx, loop(end), &out, view.Options{}) }

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
						`05:06:00  garden-demo/live Requested 0% SourceEtcdPreparedForPeerJoin (source) Pending: Prepare the source etcd for members of the destination: not begun yet. Owner is the source.
05:06:01  garden-demo/live Processing 0% SourceEtcdPreparedForPeerJoin (source) Started: a message
05:06:02  garden-demo/live Processing 10% DestinationEtcdPeersJoined (destination) Pending`))
			Expect(out.String()).To(HaveSuffix("05:06:09  garden-demo/live Succeeded 100%\n"))
		})

		DescribeTable("should end with a code", func(prepare func(), end error, code int, message string) {
			prepare()
			err := status(end)
			Expect(view.ExitCode(err)).To(Equal(code))
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
			Entry("overdue", func() {
				looks = append(looks, apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted),
					apply(1, gardencorev1beta1.ConditionFalse, steps.ReasonDeadlineExceeded))
			}, nil, view.ExitFailed, "docs/operations/SourceEtcdPreparedForPeerJoin.md"),
			Entry("aborted", func() {
				shoot.Annotations[steps.AnnotationAbort] = "true"
				updated, err := conditions.Abort(clk, steps.Conditions(shoot), conditions.AbortChange{
					Role: steps.Source, Reason: steps.ReasonAborted, Message: "a message",
				})
				Expect(err).NotTo(HaveOccurred())
				shoot.Status.LiveMigration.Conditions = updated
				looks = append(looks, now())
			}, nil, view.ExitFailed, "not completed: Aborted"),
			Entry("none", func() {
				shoot.Annotations, shoot.Spec.SeedName, shoot.Status.LiveMigration = nil, new("seed-a"), nil
				looks = append(looks, now())
			}, nil, view.ExitFailed, "not completed: None"),
			Entry("timeout", func() { looks = append(looks, now()) }, view.ErrTimeout, view.ExitTimeout,
				"the last state is: Requested, 0 %, SourceEtcdPreparedForPeerJoin"),
			Entry("timeout without a look", func() {}, view.ErrTimeout, view.ExitTimeout, "not known"),
			Entry("interrupt", func() { looks = append(looks, now()) }, errors.New("interrupted"), view.ExitFailed,
				"interrupted"),
		)

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

	Describe("Screen", func() {
		It("should draw over what is there, with one write, and erase what is left of it", func() {
			writes := &counter{}
			screen := view.Screen{Out: writes, Height: func() int { return 24 }}
			screen.Draw("one\ntwo\n")
			screen.Draw("three\n")
			Expect(writes.texts).To(Equal([]string{
				"one\x1b[K\ntwo\x1b[K\n\x1b[J",
				"\x1b[2A\rthree\x1b[K\n\x1b[J",
			}))
		})

		It("should keep what does not fit off the screen, as it could not be drawn over", func() {
			writes := &counter{}
			screen := view.Screen{Out: writes, Height: func() int { return 4 }}
			screen.Draw("1\n2\n3\n4\n5\n")
			screen.Draw("1\n")
			Expect(writes.texts).To(Equal([]string{
				"1\x1b[K\n2\x1b[K\n…\x1b[K\n\x1b[J",
				"\x1b[3A\r1\x1b[K\n\x1b[J",
			}))
		})
	})
})

type counter struct{ texts []string }

func (c *counter) Write(data []byte) (int, error) {
	c.texts = append(c.texts, string(data))
	return len(data), nil
}
