// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package deadline_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/deadline"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// overdue returns what the metric says of the shoot; nil if it says nothing.
func overdue(shoot string) *float64 {
	GinkgoHelper()
	families, err := runtimemetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "livecpm_migration_overdue" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "shoot" && label.GetValue() == shoot {
					return new(metric.GetGauge().GetValue())
				}
			}
		}
	}
	return nil
}

var _ = Describe("The deadline of a migration", func() {
	var (
		ctx      = context.Background()
		key      = client.ObjectKey{Namespace: "garden-demo", Name: "live"}
		clk      *testclock.FakeClock
		c        client.Client
		recorder *events.FakeRecorder
		patchErr error
	)

	BeforeEach(func() {
		clk = testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC))
		recorder, patchErr = events.NewFakeRecorder(100), nil
		shoot := &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clk, nil)}},
		}
		// Without a subresource, a patch of the status keeps the metadata, as in the garden.
		c = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot).
			WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client,
				subResource string, object client.Object, patch client.Patch,
				_ ...client.SubResourcePatchOption) error {
				Expect(subResource).To(Equal("status"), "the controller manager may patch nothing else without a drain")
				if patchErr != nil {
					return patchErr
				}
				return c.Patch(ctx, object, patch)
			}}).Build()
	})
	AfterEach(func() {
		Expect(client.IgnoreNotFound(c.Delete(ctx, &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))).To(Succeed())
		_, err := (&deadline.Reconciler{Client: c, Clock: clk}).Reconcile(ctx, reconcile.Request{NamespacedName: key})
		Expect(err).NotTo(HaveOccurred())
		Expect(overdue("live")).To(BeNil())
	})

	// look lets a controller manager that has just been started look at the Shoot.
	look := func() (reconcile.Result, error) {
		r := &deadline.Reconciler{Client: c, APIReader: c, Recorder: recorder, Clock: clk, After: 4 * time.Hour}
		return r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
	}
	mustLook := func() reconcile.Result {
		GinkgoHelper()
		result, err := look()
		Expect(err).NotTo(HaveOccurred())
		return result
	}
	shoot := func() *gardencorev1beta1.Shoot {
		GinkgoHelper()
		out := &gardencorev1beta1.Shoot{}
		Expect(c.Get(ctx, key, out)).To(Succeed())
		return out
	}
	change := func(mutate func(*gardencorev1beta1.Shoot)) {
		GinkgoHelper()
		s := shoot()
		mutate(s)
		Expect(c.Update(ctx, s)).To(Succeed())
	}
	told := func() []string {
		var out []string
		for {
			select {
			case e := <-recorder.Events:
				out = append(out, e)
			default:
				return out
			}
		}
	}
	set := func(step steps.Step, status gardencorev1beta1.ConditionStatus) {
		GinkgoHelper()
		change(func(s *gardencorev1beta1.Shoot) {
			updated, err := conditions.Apply(clk, steps.Conditions(s), conditions.Change{
				Step: step, Role: step.Owner, Status: status, Reason: steps.ReasonStarted, Message: "at work"})
			Expect(err).NotTo(HaveOccurred())
			s.Status.LiveMigration.Conditions = updated
		})
	}

	It("should pass once, and be told once, whoever looks and however often", func() {
		clk.Step(time.Hour)
		Expect(mustLook().RequeueAfter).To(Equal(3*time.Hour), "it comes back by itself")
		Expect(overdue("live")).To(HaveValue(BeZero()))
		Expect(told()).To(BeEmpty())

		clk.Step(3 * time.Hour)
		Expect(mustLook()).To(BeZero())
		Expect(overdue("live")).To(HaveValue(Equal(1.0)))
		Expect(told()).To(ConsistOf(And(HavePrefix("Warning MigrationOverdue"),
			ContainSubstring("longer than 4h0m0s: it began at 2026-03-04T05:00:00Z"),
			ContainSubstring("Requested, SourceEtcdPreparedForPeerJoin"))))

		for range 3 {
			clk.Step(time.Hour)
			mustLook()
		}
		Expect(told()).To(BeEmpty())
		Expect(overdue("live")).To(HaveValue(Equal(1.0)))
	})

	It("should not be told again in the last step, when the conditions do not tell the beginning any more", func() {
		for _, step := range steps.Table() {
			if step.HandsOver {
				clk.Step(4*time.Hour + time.Minute - 7*time.Minute)
				mustLook()
				Expect(told()).To(HaveLen(1))
				set(step, gardencorev1beta1.ConditionProgressing)
				break
			}
			clk.Step(time.Minute)
			set(step, gardencorev1beta1.ConditionTrue)
		}
		Expect(steps.BeganAt(steps.Conditions(shoot()))).To(BeTemporally("==",
			time.Date(2026, 3, 4, 5, 1, 0, 0, time.UTC)))
		mustLook()
		Expect(told()).To(BeEmpty())
		Expect(overdue("live")).To(HaveValue(Equal(1.0)))
	})

	It("should be the Shoot's own if it has one, and be told again when an operator has moved it", func() {
		change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationDeadline] = "30m" })
		Expect(mustLook().RequeueAfter).To(Equal(30 * time.Minute))
		clk.Step(30 * time.Minute)
		mustLook()
		Expect(told()).To(HaveLen(1))

		change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationDeadline] = "8h" })
		Expect(mustLook().RequeueAfter).To(Equal(7*time.Hour + 30*time.Minute))
		Expect(overdue("live")).To(HaveValue(BeZero()))
		Expect(steps.DeadlinePassed(shoot())).To(BeFalse())
		Expect(told()).To(BeEmpty())
		clk.Step(8 * time.Hour)
		mustLook()
		Expect(told()).To(ConsistOf(ContainSubstring("longer than 8h0m0s")))
	})

	DescribeTable("does not count if the Shoot's own is malformed", func(value string) {
		change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationDeadline] = value })
		Expect(mustLook().RequeueAfter).To(Equal(4 * time.Hour))
		clk.Step(5 * time.Hour)
		mustLook()
		Expect(told()).To(ConsistOf(ContainSubstring("is malformed, so 4h0m0s count")))
	},
		Entry("no duration", "tomorrow"),
		Entry("negative", "-1h"),
		Entry("zero", "0s"),
		Entry("empty", ""),
	)

	It("should be told only when that is noted", func() {
		clk.Step(5 * time.Hour)
		patchErr = errors.New("no garden")
		_, err := look()
		Expect(err).To(MatchError(ContainSubstring("no garden")))
		Expect(told()).To(BeEmpty())
		Expect(overdue("live")).To(HaveValue(Equal(1.0)), "the alert does not wait for it")
		patchErr = nil
		mustLook()
		Expect(told()).To(HaveLen(1))
	})

	It("should end with the migration and with its abort", func() {
		clk.Step(5 * time.Hour)
		mustLook()
		change(func(s *gardencorev1beta1.Shoot) {
			s.Annotations[steps.AnnotationAbort] = "true"
			updated, err := conditions.Abort(clk, steps.Conditions(s), conditions.AbortChange{
				Role: steps.Source, Reason: steps.ReasonAborted, Message: "as before"})
			Expect(err).NotTo(HaveOccurred())
			s.Status.LiveMigration.Conditions = updated
		})
		mustLook()
		Expect(overdue("live")).To(BeNil())

		change(func(s *gardencorev1beta1.Shoot) {
			s.Status.SeedName = new("seed-b")
			steps.RemoveAnnotations(s)
		})
		mustLook()
		Expect(overdue("live")).To(BeNil())
		Expect(steps.DeadlinePassed(shoot())).To(BeFalse())
	})

	It("should concern Shoots whose migration is taken up, until it is over", func() {
		moving, resting := shoot(), shoot()
		resting.Spec.SeedName = new("seed-a")
		predicate := deadline.Predicate()
		Expect(predicate.Create(event.CreateEvent{Object: moving})).To(BeTrue())
		Expect(predicate.Create(event.CreateEvent{Object: resting})).To(BeFalse())
		Expect(predicate.Update(event.UpdateEvent{ObjectOld: moving, ObjectNew: resting})).To(BeTrue())
		Expect(predicate.Update(event.UpdateEvent{ObjectOld: resting, ObjectNew: resting})).To(BeFalse())
		Expect(predicate.Delete(event.DeleteEvent{Object: moving})).To(BeTrue())
		Expect(predicate.Generic(event.GenericEvent{Object: moving})).To(BeFalse())
	})

	It("should be longer than those of all steps together", func() {
		var sum time.Duration
		for _, step := range steps.Table() {
			sum += step.Deadline
		}
		Expect(sum).To(BeNumerically("<", 4*time.Hour))
	})
})
