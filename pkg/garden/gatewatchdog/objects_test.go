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
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/flowcontrol"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/gatewatchdog"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

var _ = Describe("Objects", func() {
	var (
		ctx = context.Background()
		key = client.ObjectKey{Name: gate.PolicyName}

		shipped *gatewatchdog.Manifests
		// policy and binding are what the API server keeps, nil if it does not.
		policy  *admissionregistrationv1.ValidatingAdmissionPolicy
		binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding

		restore bool
		limiter flowcontrol.PassiveRateLimiter
		funcs   interceptor.Funcs
		writes  int
		proved  []string

		garden client.Client
		told   func() []string
		look   func() (reconcile.Result, error)
	)

	BeforeEach(func() {
		var err error
		shipped, err = gatewatchdog.Shipped()
		Expect(err).NotTo(HaveOccurred())
		policy, binding = shipped.Policy.DeepCopy(), shipped.Binding.DeepCopy()
		// What the API server sets by itself.
		policy.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{}
		policy.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{}
		policy.Status.ObservedGeneration = 7

		restore, writes, proved = true, 0, nil
		limiter = flowcontrol.NewFakeAlwaysRateLimiter()
		funcs = interceptor.Funcs{}
	})

	JustBeforeEach(func() {
		builder := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithObjects(inFlight("one"), inFlight("two"), resting("three")).
			WithInterceptorFuncs(interceptor.Funcs{
				Get:  funcs.Get,
				List: funcs.List,
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object,
					opts ...client.CreateOption) error {
					writes++
					if funcs.Create != nil {
						return funcs.Create(ctx, c, obj, opts...)
					}
					return c.Create(ctx, obj, opts...)
				},
				Update: func(ctx context.Context, c client.WithWatch, obj client.Object,
					opts ...client.UpdateOption) error {
					writes++
					if funcs.Update != nil {
						return funcs.Update(ctx, c, obj, opts...)
					}
					return c.Update(ctx, obj, opts...)
				},
			})
		if policy != nil {
			builder = builder.WithObjects(policy)
		}
		if binding != nil {
			builder = builder.WithObjects(binding)
		}
		garden = builder.Build()

		var report *gatewatchdog.Reporter
		report, told = reporter()
		objects := &gatewatchdog.Objects{
			Client: garden, APIReader: garden, Manifests: shipped, Restore: restore, Limiter: limiter, Reporter: report,
			Prove: func(shoot *gardencorev1beta1.Shoot) { proved = append(proved, shoot.Name) },
		}
		look = func() (reconcile.Result, error) { return objects.Reconcile(ctx, reconcile.Request{}) }
	})

	asShipped := func() {
		GinkgoHelper()
		current := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		Expect(garden.Get(ctx, key, current)).To(Succeed())
		for _, selector := range []**metav1.LabelSelector{&current.Spec.MatchConstraints.NamespaceSelector,
			&current.Spec.MatchConstraints.ObjectSelector} {
			Expect(*selector).To(Or(BeNil(), HaveValue(BeZero())))
			*selector = nil
		}
		Expect(current.Spec).To(Equal(shipped.Policy.Spec))
		bound := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		Expect(garden.Get(ctx, key, bound)).To(Succeed())
		Expect(bound.Spec).To(Equal(shipped.Binding.Spec))
	}

	It("should write nothing and say nothing when both are as shipped", func() {
		result, err := look()
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(Equal(time.Minute))
		Expect(writes).To(BeZero())
		Expect(proved).To(BeEmpty())
		Expect(told()).To(BeEmpty())
		Expect(metric("livecpm_gate_object_intact", gatewatchdog.KindPolicy)).To(BeEquivalentTo(1))
		Expect(metric("livecpm_gate_object_intact", gatewatchdog.KindBinding)).To(BeEquivalentTo(1))
	})

	It("should leave labels and annotations to whoever installs the chart", func() {
		policy.Labels, policy.Annotations = map[string]string{"app.kubernetes.io/instance": "other"},
			map[string]string{"meta.helm.sh/release-name": "x"}
		_, err := look()
		Expect(err).NotTo(HaveOccurred())
		Expect(writes).To(BeZero())
	})

	Describe("faults", func() {
		type fault struct {
			kind, cause, text string
			make              func()
		}
		spec := func() *admissionregistrationv1.ValidatingAdmissionPolicySpec { return &policy.Spec }
		faults := []fault{
			{gatewatchdog.KindPolicy, gatewatchdog.CauseMissing,
				"the ValidatingAdmissionPolicy livecpm-gate was missing", func() { policy = nil }},
			{gatewatchdog.KindBinding, gatewatchdog.CauseMissing,
				"the ValidatingAdmissionPolicyBinding livecpm-gate was missing", func() { binding = nil }},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.failurePolicy",
				func() { spec().FailurePolicy = new(admissionregistrationv1.Ignore) }},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.validations",
				func() { spec().Validations[0].Expression = "true" }},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.validations",
				func() { spec().Validations = spec().Validations[1:] }},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.matchConditions", func() {
				spec().MatchConditions = append(spec().MatchConditions,
					admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
			}},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.matchConstraints", func() {
				spec().MatchConstraints.NamespaceSelector = &metav1.LabelSelector{
					MatchLabels: map[string]string{"a": "b"},
				}
			}},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.matchConstraints", func() {
				spec().MatchConstraints.ExcludeResourceRules = spec().MatchConstraints.ResourceRules[:1]
			}},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.failurePolicy, spec.variables",
				func() {
					spec().Variables, spec().FailurePolicy = nil, new(admissionregistrationv1.Ignore)
				}},
			{gatewatchdog.KindPolicy, gatewatchdog.CauseChanged, "changed in spec.paramKind", func() {
				spec().ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			}},
			{gatewatchdog.KindBinding, gatewatchdog.CauseChanged, "changed in spec.validationActions", func() {
				binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{
					admissionregistrationv1.Warn,
				}
			}},
			{gatewatchdog.KindBinding, gatewatchdog.CauseChanged, "changed in spec.policyName",
				func() { binding.Spec.PolicyName = "other" }},
			{gatewatchdog.KindBinding, gatewatchdog.CauseChanged, "changed in spec.matchResources", func() {
				binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
			}},
		}

		for _, fault := range faults {
			When(fault.kind+": "+fault.text, func() {
				BeforeEach(func() { fault.make() })

				It("should be restored, told at the Shoots that it concerns, and proved at once", func() {
					before := max(metric("livecpm_gate_restorations_total", fault.cause, fault.kind), 0)
					_, err := look()
					Expect(err).NotTo(HaveOccurred())
					asShipped()
					Expect(writes).To(Equal(1))
					Expect(proved).To(ConsistOf("one", "two"))
					Expect(told()).To(HaveExactElements(
						And(HavePrefix("Warning GateNotInForce "), ContainSubstring(fault.text),
							HaveSuffix("and is restored")),
						HavePrefix("Warning GateNotInForce "),
					))
					Expect(metric("livecpm_gate_restorations_total", fault.cause, fault.kind)).To(Equal(before + 1))
					Expect(metric("livecpm_gate_object_intact", fault.kind)).To(BeEquivalentTo(1))

					_, err = look()
					Expect(err).NotTo(HaveOccurred())
					Expect(writes).To(Equal(1))
				})

				When("restoring is switched off", func() {
					BeforeEach(func() { restore = false })

					It("should only be told, and only once", func() {
						result, err := look()
						Expect(err).NotTo(HaveOccurred())
						Expect(result.RequeueAfter).To(Equal(time.Minute))
						_, err = look()
						Expect(err).NotTo(HaveOccurred())
						Expect(writes).To(BeZero())
						Expect(told()).To(HaveExactElements(
							And(HavePrefix("Warning GateNotInForce "), ContainSubstring(fault.text),
								ContainSubstring("install the chart livecpm-garden again")),
							HavePrefix("Warning GateNotInForce "),
						))
						Expect(metric("livecpm_gate_object_intact", fault.kind)).To(BeZero())
					})
				})
			})
		}
	})

	When("both are missing", func() {
		BeforeEach(func() { policy, binding = nil, nil })

		It("should restore both and tell it in one event", func() {
			_, err := look()
			Expect(err).NotTo(HaveOccurred())
			for _, object := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{},
				&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
				Expect(garden.Get(ctx, key, object)).To(Succeed())
			}
			Expect(told()).To(HaveLen(2))
		})
	})

	When("a write is refused", func() {
		BeforeEach(func() {
			policy = nil
			funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"},
					gate.PolicyName, errors.New("no permission"))
			}
		})

		It("should tell the cause and try again with backoff", func() {
			_, err := look()
			Expect(err).To(MatchError(ContainSubstring("no permission")))
			Expect(told()).
				To(HaveEach(And(ContainSubstring("could not be restored"), ContainSubstring("no permission"))))
			Expect(metric("livecpm_gate_object_intact", gatewatchdog.KindPolicy)).To(BeZero())
		})
	})

	When("the object is written by another at the same time", func() {
		BeforeEach(func() {
			policy.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
			funcs.Update = func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				return apierrors.NewConflict(schema.GroupResource{}, gate.PolicyName, errors.New("changed"))
			}
		})

		It("should look again soon and tell nothing yet", func() {
			result, err := look()
			Expect(err).NotTo(HaveOccurred())
			Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<", time.Second)))
			Expect(told()).To(BeEmpty())
		})
	})

	When("the API server has set a default that is not known here", func() {
		BeforeEach(func() {
			binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
			funcs.Update = func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				return nil // The stored object does not change, nor does its resource version.
			}
		})

		It("should not take it for a fault", func() {
			_, err := look()
			Expect(err).NotTo(HaveOccurred())
			Expect(told()).To(BeEmpty())
			Expect(proved).To(BeEmpty())
		})
	})

	When("somebody else changes it again each time", func() {
		BeforeEach(func() {
			limiter = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(1, 2,
				testclock.NewFakePassiveClock(time.Now()))
			funcs.Update = func(ctx context.Context, c client.WithWatch, obj client.Object,
				opts ...client.UpdateOption) error {
				if err := c.Update(ctx, obj, opts...); err != nil {
					return err
				}
				rival := obj.DeepCopyObject().(*admissionregistrationv1.ValidatingAdmissionPolicy)
				rival.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
				return c.Update(ctx, rival)
			}
			policy.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
		})

		It("should not write without end, and tell it", func() {
			for range 2 {
				_, err := look()
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(writes).To(Equal(2))
			told()

			result, err := look()
			Expect(err).NotTo(HaveOccurred())
			Expect(writes).To(Equal(2))
			Expect(result.RequeueAfter).To(Equal(time.Second))
			Expect(told()).To(HaveEach(ContainSubstring("find out who keeps changing it")))
			Expect(metric("livecpm_gate_object_intact", gatewatchdog.KindPolicy)).To(BeZero())
		})
	})

	When("the objects cannot be read", func() {
		BeforeEach(func() {
			funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
				opts ...client.GetOption) error {
				return errors.New("connection refused")
			}
		})

		It("should write nothing, say nothing of the gate, and try again", func() {
			_, err := look()
			Expect(err).To(MatchError(And(ContainSubstring("failed to read ValidatingAdmissionPolicy livecpm-gate"),
				ContainSubstring("connection refused"))))
			Expect(writes).To(BeZero())
			Expect(told()).To(BeEmpty())
		})
	})

	When("the Shoots cannot be listed", func() {
		BeforeEach(func() {
			policy = nil
			funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("connection refused")
			}
		})

		It("should restore nevertheless", func() {
			_, err := look()
			Expect(err).To(MatchError(ContainSubstring("failed to list the Shoots")))
			Expect(garden.Get(ctx, key, &admissionregistrationv1.ValidatingAdmissionPolicy{})).To(Succeed())
		})
	})
})
