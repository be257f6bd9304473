// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/controller/networkpolicy"
	"github.com/gardener/gardener/pkg/controller/networkpolicy/hostnameresolver"
	servicepolicies "github.com/gardener/gardener/pkg/resourcemanager/controller/networkpolicy"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/test/policies"
)

// seedNamespace returns a namespace of a seed.
func seedNamespace(name string, labels map[string]string) *corev1.Namespace {
	labels[corev1.LabelMetadataName] = name
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
}

// apiServerEndpoints are the addresses of the seed's API server. Gardener's controller reads this kind.
func apiServerEndpoints() client.Object {
	return &corev1.Endpoints{ //nolint:staticcheck // As above.
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // As above.
			Addresses: []corev1.EndpointAddress{{IP: "10.250.0.11"}}, //nolint:staticcheck // As above.
			Ports:     []corev1.EndpointPort{{Port: 443, Protocol: corev1.ProtocolTCP}}}}}
}

// makeWorld lets Gardener's two controllers make the policies of both namespaces and of all services, and returns them.
// With them are those by which charts permit pods in the garden namespace to go anywhere: their labels, by the names of
// the applications.
func makeWorld(
	ctx context.Context, c client.Client, namespace string, anywhere map[string]map[string]string,
) policies.World {
	GinkgoHelper()
	for _, ns := range []string{"garden", namespace} {
		_, err := (&networkpolicy.Reconciler{RuntimeClient: c, Resolver: hostnameresolver.NewNoOpProvider(),
			RuntimeNetworks: networkpolicy.RuntimeNetworkConfig{
				IPFamilies: []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv4},
				Nodes:      []string{"10.250.0.11/32"},
				Pods:       []string{"10.241.0.0/16"},
				Services:   []string{"10.97.0.0/16"},
			}}).Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: ns}})
		Expect(err).NotTo(HaveOccurred())
	}
	services := &corev1.ServiceList{}
	Expect(c.List(ctx, services)).To(Succeed())
	for i := range services.Items {
		_, err := (&servicepolicies.Reconciler{TargetClient: c}).Reconcile(ctx,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&services.Items[i])})
		Expect(err).NotTo(HaveOccurred())
	}

	world := policies.World{}
	for name, labels := range anywhere {
		world.Policies = append(world.Policies, networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "allow-all-egress-from-" + name},
			Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: labels},
				Egress: []networkingv1.NetworkPolicyEgressRule{{}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress,
					networkingv1.PolicyTypeIngress}},
		})
	}
	made, namespaces := &networkingv1.NetworkPolicyList{}, &corev1.NamespaceList{}
	Expect(c.List(ctx, made)).To(Succeed())
	Expect(c.List(ctx, namespaces)).To(Succeed())
	world.Policies = append(world.Policies, made.Items...)
	world.Namespaces = namespaces.Items
	return world
}
