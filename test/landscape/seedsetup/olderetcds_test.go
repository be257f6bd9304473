// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup_test

import (
	"context"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/gardener/pkg/client/kubernetes"

	. "github.com/livecpm/livecpm/test/landscape/seedsetup"
)

var _ = DescribeTable("CheckOlderEtcds", func(events *string, problem string) {
	etcd := func(name string, prefix *string) *druidcorev1alpha1.Etcd {
		return &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--p--s", Name: name},
			Spec: druidcorev1alpha1.EtcdSpec{MemberNamePrefix: prefix}}
	}
	c := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
		WithObjects(etcd("etcd-main", nil), etcd("etcd-events", events)).Build()
	err := CheckOlderEtcds(context.Background(), c, "shoot--p--s")
	if problem == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(MatchError(ContainSubstring(problem)))
},
	Entry("no prefix", nil, ""),
	Entry("one has it", new("seed-a"), `etcd-events one that is older than the prefix: it has the prefix "seed-a"`),
)
