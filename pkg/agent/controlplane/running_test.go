// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	gardenerextensions "github.com/gardener/gardener/pkg/extensions"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istioapinetworkingv1beta1 "istio.io/api/networking/v1beta1"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("What runs", func() {
	const namespace = "shoot--demo--live"
	var (
		ctx   = context.Background()
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", Generation: 7},
			Spec: gardencorev1beta1.ShootSpec{Provider: gardencorev1beta1.Provider{
				ControlPlaneConfig: &runtime.RawExtension{Raw: []byte(`{"b": 1, "a": 2}`)}}},
			Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace},
		}
	)
	in := func(objects ...client.Object) (*controlplane.ControlPlane, client.Client) {
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
		return of(fakekubernetes.NewClientSetBuilder().WithAPIReader(c).Build(), patience.Eventually), c
	}

	It("should be the Shoot that the gardenlet has written into the Cluster", func() {
		c, seed := in()
		Expect(gardenerextensions.SyncClusterResourceToSeed(ctx, seed, namespace, shoot, nil, nil)).To(Succeed())
		running, err := c.Running(ctx, shoot)
		Expect(err).NotTo(HaveOccurred())
		Expect(running.Generation).To(Equal(int64(7)))
		Expect(running.Spec.Provider.ControlPlaneConfig.Raw).To(MatchJSON(`{"a":2,"b":1}`))
	})

	It("should not be guessed", func() {
		c, _ := in()
		_, err := c.Running(ctx, shoot)
		Expect(err).To(MatchError(ContainSubstring("failed to read the Shoot in Cluster " + namespace)))

		c, _ = in(&extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		Expect(c.Running(ctx, shoot)).To(BeNil())
	})

	It("should tell where clients' TLS ends", func() {
		routes := &istionetworkingv1beta1.VirtualService{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-apiserver"},
		}
		c, seed := in(routes)
		Expect(c.TLSEndsAtGateway(ctx, shoot)).To(BeFalse())

		routes.Spec.Http = []*istioapinetworkingv1beta1.HTTPRoute{{Name: "kube-apiserver"}}
		Expect(seed.Update(ctx, routes)).To(Succeed())
		Expect(c.TLSEndsAtGateway(ctx, shoot)).To(BeTrue())

		Expect(seed.Delete(ctx, routes)).To(Succeed())
		_, err := c.TLSEndsAtGateway(ctx, shoot)
		Expect(err).To(MatchError(ContainSubstring("failed to read VirtualService " + namespace + "/kube-apiserver")))
	})
})
