// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
)

var _ = Describe("AnnounceMembers", func() {
	var (
		ctx  = context.Background()
		etcd *druidcorev1alpha1.Etcd
		c    client.Client
	)

	BeforeEach(func() {
		etcd = &druidcorev1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"},
			Spec: druidcorev1alpha1.EtcdSpec{Replicas: 2,
				Etcd: druidcorev1alpha1.EtcdConfig{PeerUrlTLS: &druidcorev1alpha1.PeerTLSConfig{}}},
		}
		builder := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme)
		for _, name := range druidcorev1alpha1.GetMemberLeaseNames(etcd) {
			builder.WithObjects(
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
					Labels: map[string]string{"by": "druid"}}})
		}
		c = builder.Build()
	})

	leases := func() []coordinationv1.Lease {
		GinkgoHelper()
		list := &coordinationv1.LeaseList{}
		Expect(c.List(ctx, list)).To(Succeed())
		return list.Items
	}

	It("should create the Lease of the member to come as it will be, and leave the others alone", func() {
		Expect(AnnounceMembers(ctx, c, etcd, 3)).To(Succeed())
		Expect(AnnounceMembers(ctx, c, etcd, 3)).To(Succeed(), "again, after an interruption")

		scaled := etcd.DeepCopy()
		scaled.Spec.Replicas = 3
		names := druidcorev1alpha1.GetMemberLeaseNames(scaled)
		Expect(etcd.Spec.Replicas).To(Equal(int32(2)), "scaling is not its business")
		Expect(leases()).To(HaveLen(3))
		for _, lease := range leases() {
			if lease.Name == names[2] {
				Expect(lease.Annotations).To(Equal(map[string]string{"member.etcd.gardener.cloud/tls-enabled": "true"}))
				continue
			}
			Expect(lease.Annotations).To(BeEmpty())
			Expect(lease.Labels).To(HaveKey("by"))
		}
	})

	It("should say nothing of TLS where there is none", func() {
		etcd.Spec.Etcd.PeerUrlTLS = nil
		Expect(AnnounceMembers(ctx, c, etcd, 3)).To(Succeed())
		Expect(leases()).To(HaveLen(2))
	})
})
