// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	kubeapiserverexposure "github.com/gardener/gardener/pkg/component/kubernetes/apiserverexposure"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	seedpkg "github.com/gardener/gardener/pkg/gardenlet/operation/seed"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istioapinetworkingv1beta1 "istio.io/api/networking/v1beta1"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/destination"
)

var _ = Describe("Access control", func() {
	ctx := context.Background()

	Describe("finds the ingress gateway", func() {
		var (
			deps    *destination.Deps
			b       *botanist.Botanist
			gateway = &istionetworkingv1beta1.Gateway{}
			labels  = map[string]string{"istio": "ingressgateway"}
			hosts   = []string{"api.live.demo.internal", "api.live.example.com"}
		)
		read := func() *istionetworkingv1beta1.Gateway {
			GinkgoHelper()
			gateway = &istionetworkingv1beta1.Gateway{}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-apiserver"},
				gateway)).To(Succeed())
			return gateway
		}
		routes := func() []istionetworkingv1beta1.VirtualService {
			GinkgoHelper()
			list := &istionetworkingv1beta1.VirtualServiceList{}
			Expect(deps.SeedClientSet.Client().List(ctx, list)).To(Succeed())
			out := make([]istionetworkingv1beta1.VirtualService, len(list.Items))
			for i, item := range list.Items {
				item.DeepCopyInto(&out[i])
			}
			return out
		}

		BeforeEach(func() {
			deps = newDeps(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			shoot := &shootpkg.Shoot{ControlPlaneNamespace: namespace, InternalClusterDomain: new("live.demo.internal"),
				ExternalClusterDomain: new("live.example.com")}
			shoot.SetInfo(&gardencorev1beta1.Shoot{})
			seed := &seedpkg.Seed{}
			seed.SetInfo(&gardencorev1beta1.Seed{})
			b = &botanist.Botanist{Operation: &gardeneroperation.Operation{
				Shoot: shoot,
				Config: &gardenletconfigv1alpha1.GardenletConfiguration{SNI: &gardenletconfigv1alpha1.SNI{
					Ingress: &gardenletconfigv1alpha1.SNIIngress{Namespace: new("istio-ingress"), Labels: labels},
				}},
				Seed: seed, SeedNamespaceObject: &corev1.Namespace{},
			}}
		})

		It("should have a Gateway without a route, which Gardener's component then completes", func() {
			Expect(destination.DeployGatewayWithoutRoute(ctx, deps, b)).To(Succeed())
			Expect(read().Spec.Selector).To(Equal(b.IstioLabels()))
			Expect(gateway.Spec.Servers).To(HaveLen(1))
			Expect(gateway.Spec.Servers[0].Hosts).To(Equal(hosts))
			Expect(gateway.Spec.Servers[0].Tls.Mode).To(Equal(istioapinetworkingv1beta1.ServerTLSSettings_PASSTHROUGH))
			Expect(routes()).To(BeEmpty())

			component := kubeapiserverexposure.NewSNI(deps.SeedClientSet.Client(), "kube-apiserver", namespace, nil,
				func() *kubeapiserverexposure.SNIValues {
					return &kubeapiserverexposure.SNIValues{Hosts: hosts,
						IstioIngressGateway: kubeapiserverexposure.IstioIngressGateway{Namespace: "istio-ingress",
							Labels: labels}}
				})
			Expect(component.Deploy(ctx)).To(Succeed())
			Expect(routes()).To(HaveLen(1))
			Expect(read().Labels).NotTo(BeEmpty())
			Expect(gateway.Spec.Servers).To(HaveLen(1))
			Expect(gateway.Spec.Servers[0].Hosts).To(Equal(hosts))

			Expect(component.Destroy(ctx)).To(Succeed())
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(gateway), gateway)).NotTo(Succeed())
		})

		It("should leave a route as it is that a former attempt has opened", func() {
			Expect(destination.DeployGatewayWithoutRoute(ctx, deps, b)).To(Succeed())
			read().Spec.Servers[0].Tls.Mode = istioapinetworkingv1beta1.ServerTLSSettings_MUTUAL
			Expect(deps.SeedClientSet.Client().Update(ctx, gateway)).To(Succeed())
			Expect(destination.DeployGatewayWithoutRoute(ctx, deps, b)).To(Succeed())
			Expect(read().Spec.Servers[0].Tls.Mode).To(Equal(istioapinetworkingv1beta1.ServerTLSSettings_MUTUAL))
		})
	})

	managedResource := func(class, applied string, generation int64) *resourcesv1alpha1.ManagedResource {
		out := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "acl-seed", Namespace: namespace,
			Generation: generation}}
		if class != "" {
			out.Spec.Class = &class
		}
		out.Status.ObservedGeneration = 1
		if applied != "" {
			out.Status.Conditions = []gardencorev1beta1.Condition{{Type: resourcesv1alpha1.ResourcesApplied,
				Status: gardencorev1beta1.ConditionStatus(applied), Message: "no such kind"}}
		}
		return out
	}

	DescribeTable("should be in force when all that is for the seed is applied",
		func(problem string, objects ...client.Object) {
			err := destination.CheckApplied(ctx, newDeps(objects...))
			if problem == "" {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(err).To(MatchError(ContainSubstring(problem)))
		},
		Entry("applied", "", managedResource("seed", "True", 1)),
		Entry("nothing there", ""),
		Entry("for the shoot, whose resource manager does not run yet", "", managedResource("", "", 1)),
		Entry("not looked at yet", "has not been reported yet", managedResource("seed", "", 1)),
		Entry("not applied", "is False: no such kind", managedResource("seed", "False", 1)),
		Entry("applied as it was before", "outdated", managedResource("seed", "True", 2)),
	)
})
