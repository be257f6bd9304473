// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placeholders_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

var _ = Describe("Etcds that are to be older than the prefix", func() {
	// created returns the Etcd as the kube-apiserver of a seed takes it.
	created := func(g Gomega, prefix string, joined ...string) *druidcorev1alpha1.Etcd {
		etcd := &druidcorev1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "etcd-main"},
			Spec: druidcorev1alpha1.EtcdSpec{Replicas: 3, MemberNamePrefix: &prefix,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "main"}},
				Labels:   map[string]string{"role": "main"}},
		}
		tls := druidcorev1alpha1.TLSConfig{
			TLSCASecretRef: druidcorev1alpha1.SecretReference{
				SecretReference: corev1.SecretReference{Namespace: metav1.NamespaceDefault, Name: "ca"}},
			ServerTLSSecretRef: corev1.SecretReference{Namespace: metav1.NamespaceDefault, Name: "server"},
			ClientTLSSecretRef: corev1.SecretReference{Namespace: metav1.NamespaceDefault, Name: "client"},
		}
		etcd.Spec.Etcd.ClientUrlTLS, etcd.Spec.Etcd.PeerUrlTLS = &tls, &druidcorev1alpha1.PeerTLSConfig{TLSConfig: tls}
		for _, name := range joined {
			if etcd.Spec.Etcd.BootstrapWithExistingCluster == nil {
				etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidcorev1alpha1.BootstrapWithExistingCluster{
					ClientEndpoints: []string{naming.SourceClientEndpoint("default", "main")},
				}
			}
			etcd.Spec.Etcd.BootstrapWithExistingCluster.Members = append(
				etcd.Spec.Etcd.BootstrapWithExistingCluster.Members, druidcorev1alpha1.BootstrapExistingMember{
					Name: name, PeerURLs: []string{"https://" + name + ".default.svc:2380"}})
		}
		g.Expect(seed.Create(ctx, etcd, client.DryRunAll)).To(Succeed())
		return etcd
	}

	It("should have no prefix, unless they join a cluster, whose members may have none", func() {
		Eventually(func(g Gomega) {
			g.Expect(created(g, "seed-a").Spec.MemberNamePrefix).To(BeNil())
		}).WithTimeout(waitForPolicies).Should(Succeed())
		joining := created(Default, "seed-b", "etcd-main-0", "etcd-main-1", "etcd-main-2")
		Expect(joining.Spec.MemberNamePrefix).To(HaveValue(Equal("seed-b")))
		Expect(joining.Spec.Etcd.BootstrapWithExistingCluster.Members).To(HaveLen(3))
	})
})
