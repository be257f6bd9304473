// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overlap_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	gardenerkubernetes "github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/overlap"
)

var _ = Describe("The regular VPN client", func() {
	const namespace = "shoot--demo--workers"

	// resource is what the resource manager has applied, while its look at the pods is still to come.
	resource := func() *resourcesv1alpha1.ManagedResource {
		return &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Name: "shoot-core-vpn-shoot", Namespace: namespace, Generation: 3},
			Status: resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 3,
				Conditions: []gardencorev1beta1.Condition{
					{Type: resourcesv1alpha1.ResourcesApplied, Status: gardencorev1beta1.ConditionTrue},
					{Type: resourcesv1alpha1.ResourcesProgressing, Status: gardencorev1beta1.ConditionTrue},
				}},
		}
	}
	// deployment has a new pod that is available, beside the former one.
	deployment := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "vpn-shoot", Namespace: metav1.NamespaceSystem, Generation: 2},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1,
				AvailableReplicas: 2, Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}},
		}
	}
	check := func(ctx SpecContext, inSeed *resourcesv1alpha1.ManagedResource, inShoot *appsv1.Deployment) error {
		fake := func(object client.Object) client.Client {
			return fakeclient.NewClientBuilder().WithScheme(gardenerkubernetes.SeedScheme).WithObjects(object).Build()
		}
		return overlap.CheckVPNClient(ctx, fake(inSeed), fake(inShoot), namespace)
	}

	It("should be in the temporary one's way from when its new pod runs, whatever becomes of the former pod",
		func(ctx SpecContext) {
			Expect(check(ctx, resource(), deployment())).To(Succeed())
		})

	DescribeTable("should be waited for until then", func(ctx SpecContext, expected string,
		spoil func(*resourcesv1alpha1.ManagedResource, *appsv1.Deployment)) {
		inSeed, inShoot := resource(), deployment()
		spoil(inSeed, inShoot)
		Expect(check(ctx, inSeed, inShoot)).To(MatchError(ContainSubstring(expected)))
	},
		Entry("it is not there", "failed to get ManagedResource shoot--demo--workers/shoot-core-vpn-shoot",
			func(r *resourcesv1alpha1.ManagedResource, _ *appsv1.Deployment) { r.Name = "other" }),
		Entry("the resource manager has not seen the change", "failed to change the VPN client",
			func(r *resourcesv1alpha1.ManagedResource, _ *appsv1.Deployment) { r.Status.ObservedGeneration = 2 }),
		Entry("the resource manager has not applied the change", "failed to change the VPN client",
			func(r *resourcesv1alpha1.ManagedResource, _ *appsv1.Deployment) {
				r.Status.Conditions[0].Status = gardencorev1beta1.ConditionProgressing
			}),
		Entry("the shoot has none", "failed to get Deployment kube-system/vpn-shoot of the shoot",
			func(_ *resourcesv1alpha1.ManagedResource, d *appsv1.Deployment) { d.Name = "other" }),
		Entry("the shoot has not seen the change", "observed generation outdated",
			func(_ *resourcesv1alpha1.ManagedResource, d *appsv1.Deployment) { d.Generation = 3 }),
		Entry("there is no new pod", "0 of 1 pods are new",
			func(_ *resourcesv1alpha1.ManagedResource, d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }),
		Entry("the new pod does not run", "1 are not available",
			func(_ *resourcesv1alpha1.ManagedResource, d *appsv1.Deployment) { d.Status.UnavailableReplicas = 1 }),
	)
})
