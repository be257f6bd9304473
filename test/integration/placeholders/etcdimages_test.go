// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placeholders_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/probe"
)

var _ = Describe("The Etcd by which a probe asks etcd-druid for its images", func() {
	It("should be one that etcd-druid's definition permits, without members and without a store for backups", func() {
		etcd := probe.EtcdWithoutMembers(metav1.NamespaceDefault)
		Expect(seed.Create(ctx, etcd)).To(Succeed())
		DeferCleanup(func() { Expect(seed.Delete(ctx, etcd)).To(Succeed()) })
		Expect(seed.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Spec.Replicas).To(BeZero())
		Expect(etcd.IsBackupStoreEnabled()).To(BeFalse())
		Expect(etcd.Spec.Etcd.Image).To(BeNil(), "etcd-druid chooses it")
		Expect(etcd.Spec.Backup.Image).To(BeNil(), "etcd-druid chooses it")
	})
})
