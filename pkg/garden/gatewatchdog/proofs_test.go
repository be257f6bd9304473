// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/gatewatchdog"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const constraint = gardencorev1beta1.ShootReadyForMigration

type verifier func(context.Context) error

func (v verifier) Verify(ctx context.Context, _ *gardencorev1beta1.Shoot) error { return v(ctx) }

var _ = Describe("Proofs", func() {
	const period = 5 * time.Second

	var (
		ctx     = context.Background()
		shoot   *gardencorev1beta1.Shoot
		answer  error
		asked   int
		looks   int
		restore bool
		patch   func(client.Object) error

		garden client.Client
		report *gatewatchdog.Reporter
		told   func() []string
		prove  func() (reconcile.Result, error)
		open   = func(problem gate.Problem, cause error) error {
			return &gate.OpenError{Problem: problem, Message: "seen: " + string(problem), Remedy: "do this", Err: cause}
		}
		inForce = func() float64 { return metric("livecpm_gate_in_force", "garden-demo", "live") }
	)

	BeforeEach(func() {
		shoot, answer, asked, looks, restore, patch = inFlight("live"), nil, 0, 0, true, nil
	})

	JustBeforeEach(func() {
		garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot).
			WithStatusSubresource(&gardencorev1beta1.Shoot{}).
			WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object,
					p client.Patch, opts ...client.SubResourcePatchOption) error {
					if patch != nil {
						if err := patch(obj); err != nil {
							return err
						}
					}
					return c.SubResource(subResource).Patch(ctx, obj, p, opts...)
				},
			}).Build()
		report, told = reporter()
		proofs := &gatewatchdog.Proofs{
			Client: garden, APIReader: garden, Period: period, Restore: restore, Reporter: report,
			Gate: verifier(func(ctx context.Context) error {
				asked++
				_, bounded := ctx.Deadline()
				Expect(bounded).To(BeTrue(), "a proof must not last for ever")
				return answer
			}),
			LookAtObjects: func() { looks++ },
		}
		prove = func() (reconcile.Result, error) {
			return proofs.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)})
		}
		DeferCleanup(func() { report.Forget(client.ObjectKeyFromObject(shoot)) })
	})

	current := func() *gardencorev1beta1.Shoot {
		GinkgoHelper()
		current := &gardencorev1beta1.Shoot{}
		Expect(garden.Get(ctx, client.ObjectKeyFromObject(shoot), current)).To(Succeed())
		return current
	}
	again := func() reconcile.Result {
		GinkgoHelper()
		result, err := prove()
		Expect(err).NotTo(HaveOccurred())
		return result
	}

	It("should prove once per period and say nothing while all is well", func() {
		Expect(again().RequeueAfter).To(Equal(period))
		Expect(again().RequeueAfter).To(Equal(period))
		Expect(asked).To(Equal(2))
		Expect(looks).To(BeZero())
		Expect(told()).To(BeEmpty())
		Expect(inForce()).To(BeEquivalentTo(1))
	})

	It("should tell of an open gate once, look at the objects, prove more often, and tell when it is closed again",
		func() {
			before := max(metric("livecpm_gate_proofs_total", "NotInForce"), 0)
			answer = open(gate.ProblemNotInForce, nil)
			Expect(again().RequeueAfter).To(Equal(time.Second))
			Expect(again().RequeueAfter).To(Equal(time.Second))
			Expect(told()).To(HaveExactElements(
				And(HavePrefix("Warning GateNotInForce "), ContainSubstring("seen: NotInForce; do this"))))
			Expect(looks).To(Equal(2))
			Expect(inForce()).To(BeZero())
			Expect(metric("livecpm_gate_proofs_total", "NotInForce")).To(Equal(before + 2))

			answer = nil
			Expect(again().RequeueAfter).To(Equal(period))
			Expect(told()).To(HaveExactElements(HavePrefix("Normal GateInForce ")))
			Expect(again().RequeueAfter).To(Equal(period))
			Expect(told()).To(BeEmpty())
			Expect(inForce()).To(BeEquivalentTo(1))
		})

	It("should tolerate one proof without an answer, and tell when there is none for longer", func() {
		answer = open(gate.ProblemNotProved, errors.New("connection refused"))
		again()
		Expect(told()).To(BeEmpty())
		Expect(inForce()).To(BeZero())
		again()
		Expect(told()).
			To(HaveExactElements(And(HavePrefix("Warning GateNotInForce "), ContainSubstring("connection refused"))))
		again()
		Expect(told()).To(BeEmpty())
	})

	It("should count proofs without an answer in a row only", func() {
		for range 3 {
			answer = open(gate.ProblemNotProved, errors.New("connection refused"))
			again()
			answer = nil
			again()
		}
		Expect(told()).To(BeEmpty())
	})

	It("should tell when the problem becomes another one", func() {
		answer = open(gate.ProblemNotInForce, nil)
		again()
		answer = open(gate.ProblemConstraintTrue, nil)
		again()
		Expect(told()).To(HaveExactElements(ContainSubstring("seen: NotInForce"),
			ContainSubstring("seen: ConstraintTrue")))
	})

	It("should take an error of another kind for a proof without an answer", func() {
		answer = errors.New("something else")
		again()
		again()
		Expect(told()).To(HaveExactElements(ContainSubstring("something else")))
	})

	It("should cut notes that the API server would not take", func() {
		answer = open(gate.ProblemNotInForce, errors.New(string(make([]byte, 3000))))
		again()
		events := told()
		Expect(events).To(HaveLen(1))
		Expect(len(events[0])).To(BeNumerically("<", 1024+len("Warning GateNotInForce ")))
	})

	DescribeTable("should not prove, and forget, what does not need the gate",
		func(change func()) {
			Expect(again().RequeueAfter).To(Equal(period))
			Expect(inForce()).To(BeEquivalentTo(1))
			change()
			Expect(again()).To(BeZero())
			Expect(asked).To(Equal(1))
			Expect(inForce()).To(BeEquivalentTo(-1))
		},
		Entry("a Shoot that has arrived", func() {
			arrived := current()
			arrived.Status.SeedName = arrived.Spec.SeedName
			Expect(garden.Status().Update(ctx, arrived)).To(Succeed())
		}),
		Entry("a Shoot that migrates classically", func() {
			classic := current()
			classic.Annotations = nil
			Expect(garden.Update(ctx, classic)).To(Succeed())
		}),
		Entry("a Shoot that is gone", func() { Expect(garden.Delete(ctx, current())).To(Succeed()) }),
	)

	DescribeTable("should say nothing when the answer only tells that the Shoot has changed meanwhile",
		func(err error) {
			answer = err
			again()
			again()
			Expect(told()).To(BeEmpty())
			Expect(looks).To(BeZero())
		},
		Entry("no intent any more", open(gate.ProblemNoIntent, nil)),
		Entry("gone", open(gate.ProblemNotProved, apierrors.NewNotFound(gardencorev1beta1.Resource("shoots"), "live"))),
	)

	It("should say nothing when it is itself about to end", func() {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		answer = open(gate.ProblemNotInForce, nil)
		ctx = ended
		DeferCleanup(func() { ctx = context.Background() })
		Expect(again()).To(BeZero())
		Expect(told()).To(BeEmpty())
	})

	Describe("a left-over constraint", func() {
		BeforeEach(func() {
			answer = open(gate.ProblemConstraintTrue, nil)
			shoot.Status.Constraints = []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.ShootHibernationPossible, Status: gardencorev1beta1.ConditionTrue},
				{Type: constraint, Status: gardencorev1beta1.ConditionTrue},
			}
		})
		left := func() []gardencorev1beta1.Condition { return current().Status.Constraints }

		It("should be removed, and nothing else", func() {
			before := max(metric("livecpm_gate_restorations_total", gatewatchdog.CauseConstraintTrue, "Shoot"), 0)
			again()
			Expect(left()).To(ConsistOf(HaveField("Type", gardencorev1beta1.ShootHibernationPossible)))
			Expect(told()).To(HaveExactElements(HavePrefix("Warning GateNotInForce ")))
			Expect(metric("livecpm_gate_restorations_total", gatewatchdog.CauseConstraintTrue, "Shoot")).
				To(Equal(before + 1))
		})

		It("should be removed also when the gardenlet has begun in the middle of a live migration", func() {
			classic := current()
			classic.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeMigrate
			Expect(garden.Status().Update(ctx, classic)).To(Succeed())
			again()
			Expect(left()).To(HaveLen(1))
		})

		It("should be left to a classic migration that was there first", func() {
			classic := current()
			classic.Status.LiveMigration = nil
			classic.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeMigrate
			Expect(garden.Status().Update(ctx, classic)).To(Succeed())
			again()
			Expect(left()).To(HaveLen(2))
			Expect(told()).To(HaveLen(1))
		})

		It("should be tried again when another has written the Shoot meanwhile", func() {
			patch = func(client.Object) error {
				return apierrors.NewConflict(gardencorev1beta1.Resource("shoots"), "live", errors.New("changed"))
			}
			Expect(again().RequeueAfter).To(Equal(time.Second))
			Expect(left()).To(HaveLen(2))
			patch = nil
			again()
			Expect(left()).To(HaveLen(1))
		})

		When("restoring is switched off", func() {
			BeforeEach(func() { restore = false })

			It("should only be told", func() {
				again()
				Expect(left()).To(HaveLen(2))
				Expect(told()).To(HaveLen(1))
			})
		})
	})

	Describe("together with the objects", func() {
		It("should tell that the gate is in force again after a restoration", func() {
			report.ObjectsRestored([]*gardencorev1beta1.Shoot{shoot}, "it was missing and is restored")
			Expect(told()).To(HaveExactElements(HavePrefix("Warning GateNotInForce ")))
			// The API servers take a moment.
			answer = open(gate.ProblemNotInForce, nil)
			again()
			Expect(told()).To(BeEmpty(), "that is no news")
			answer = nil
			again()
			Expect(told()).To(HaveExactElements(HavePrefix("Normal GateInForce ")))
		})

		It("should not call the gate in force while the objects are not as shipped, whatever the proof says", func() {
			report.ObjectsFaulty(nil, "it was changed")
			again()
			Expect(told()).
				To(HaveExactElements(And(HavePrefix("Warning GateNotInForce "), HaveSuffix("it was changed"))))
			again()
			Expect(told()).To(BeEmpty())
			report.ObjectsIntact()
			again()
			Expect(told()).To(HaveExactElements(HavePrefix("Normal GateInForce ")))
		})
	})
})

var _ = Describe("#ShootPredicate", func() {
	predicate := gatewatchdog.ShootPredicate()
	ready := func(name string) *gardencorev1beta1.Shoot {
		shoot := inFlight(name)
		shoot.Status.Constraints = []gardencorev1beta1.Condition{
			{Type: constraint, Status: gardencorev1beta1.ConditionTrue},
		}
		return shoot
	}

	It("should let through what is on its way when it appears or goes", func() {
		Expect(predicate.Create(event.CreateEvent{Object: inFlight("x")})).To(BeTrue())
		Expect(predicate.Create(event.CreateEvent{Object: resting("x")})).To(BeFalse())
		Expect(predicate.Delete(event.DeleteEvent{Object: inFlight("x")})).To(BeTrue())
		Expect(predicate.Delete(event.DeleteEvent{Object: resting("x")})).To(BeFalse())
	})

	DescribeTable("updates",
		func(before, after *gardencorev1beta1.Shoot, through bool) {
			Expect(predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(through))
		},
		Entry("departs", resting("x"), inFlight("x"), true),
		Entry("arrives", inFlight("x"), resting("x"), true),
		Entry("stays", resting("x"), resting("x"), false),
		Entry("continues", inFlight("x"), inFlight("x"), false),
		Entry("the constraint becomes True", inFlight("x"), ready("x"), true),
		Entry("the constraint goes", ready("x"), inFlight("x"), true),
	)
})
