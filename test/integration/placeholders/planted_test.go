// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placeholders_test

import (
	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/planted"
)

// others returns objects of the kinds that policies are for. Controllers make many of them with names that the
// kube-apiserver generates after the policies have judged them.
func others() []client.Object {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "others-",
		Labels: map[string]string{"of": "others"}}
	return []client.Object{
		&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			Containers:                   []corev1.Container{{Name: "others", Image: "registry.example/others"}}}},
		&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4},
		&druidcorev1alpha1.Etcd{ObjectMeta: meta, Spec: druidcorev1alpha1.EtcdSpec{
			Selector: &metav1.LabelSelector{MatchLabels: meta.Labels}, Labels: meta.Labels}},
	}
}

// Each of them waits for the kube-apiserver to do with a sample what it is for.
var _ = Describe("The policies that plant faults", func() {
	for _, policy := range planted.Policies() {
		It("should come into force and go: "+policy.Name(), func() {
			DeferCleanup(func() { Expect(policy.Remove(ctx, seed)).To(Succeed()) })
			Expect(policy.Remove(ctx, seed)).To(Succeed(), "nothing is there")
			Expect(policy.Plant(ctx, seed)).To(Succeed())
			Expect(policy.Plant(ctx, seed)).To(Succeed(), "it is there")
			for _, object := range others() {
				Expect(seed.Create(ctx, object, client.DryRunAll)).To(Succeed())
				Expect(object.GetLabels()).To(Equal(map[string]string{"of": "others"}))
			}
			Expect(policy.Remove(ctx, seed)).To(Succeed())
		})
	}
})
