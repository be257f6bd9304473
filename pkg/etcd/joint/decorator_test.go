// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
)

var _ = Describe("Decorate", func() {
	var (
		ctx       = context.Background()
		c         client.Client
		bootstrap = &druidcorev1alpha1.BootstrapWithExistingCluster{
			Members: []druidcorev1alpha1.BootstrapExistingMember{{Name: "seed-a-etcd-main-0",
				PeerURLs: []string{"https://etcd-main-0.etcd-main-peer.shoot--demo--live.svc:2380"}}},
			ClientEndpoints: []string{"https://source-client.etcd-main-peer.shoot--demo--live.svc:22379"},
		}
	)

	component := func(replicas int32, with client.Client) gardeneretcd.Interface {
		return gardeneretcd.New(logr.Discard(), with, namespace, fakesecretsmanager.New(c, namespace),
			gardeneretcd.Values{
				Role: "main", Class: gardeneretcd.ClassImportant, Replicas: &replicas, StorageCapacity: "25Gi",
				HighAvailabilityEnabled: true, MemberNamePrefix: "seed-b",
				DefragmentationSchedule: new("0 0 * * *"),
			})
	}
	get := func() *druidcorev1alpha1.Etcd {
		GinkgoHelper()
		etcd := &druidcorev1alpha1.Etcd{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, etcd)).To(Succeed())
		return etcd
	}

	BeforeEach(func() {
		c = fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).Build()
		for _, name := range []string{"ca-etcd", "ca-etcd-peer"} {
			Expect(c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).
				To(Succeed())
		}
	})

	DescribeTable("names that collide", func(prefix *string, taken, refused string) {
		etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}}
		etcd.Spec.MemberNamePrefix = prefix
		err := Decorate(c, map[string]*druidcorev1alpha1.BootstrapWithExistingCluster{
			"etcd-main": {Members: []druidcorev1alpha1.BootstrapExistingMember{{Name: taken}}},
		}).Create(ctx, etcd)
		if refused == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(And(ContainSubstring("a member named "+refused+" already"),
			ContainSubstring("UpgradeEtcdVersion"))))
	},
		Entry("both seeds give their prefix", new("seed-b"), "seed-a-etcd-main-1", ""),
		Entry("the source's Etcd is older than the prefix", new("seed-b"), "etcd-main-1", ""),
		Entry("the destination gives none, and so did the source", nil, "etcd-main-1", "etcd-main-1"),
		Entry("the source has the prefix of the destination", new("seed-b"), "seed-b-etcd-main-2",
			"seed-b-etcd-main-2"),
	)

	It("should create a joining Etcd with upstream's component, keep it joining, and let go in the end", func() {
		By("creating")
		plain := component(2, c)
		Expect(NewEtcd(logr.Discard(), c, JoiningEtcd{Namespace: namespace,
			SecretsManager: fakesecretsmanager.New(c, namespace), Upstream: plain, Bootstrap: bootstrap}).
			Deploy(ctx)).To(Succeed())
		etcd := get()
		Expect(etcd.Spec.Replicas).To(Equal(int32(2)))
		Expect(*etcd.Spec.MemberNamePrefix).To(Equal("seed-b"))
		Expect(*etcd.Spec.Etcd.ServerPort).To(Equal(int32(2381)))
		Expect(etcd.Spec.Etcd.BootstrapWithExistingCluster).To(Equal(bootstrap))

		By("scaling up, without knowing the source any more")
		Expect(component(3, Decorate(c, nil)).Deploy(ctx)).To(Succeed())
		etcd = get()
		Expect(etcd.Spec.Replicas).To(Equal(int32(3)))
		Expect(*etcd.Spec.Etcd.ServerPort).To(Equal(int32(2381)))
		Expect(etcd.Spec.Etcd.BootstrapWithExistingCluster).To(Equal(bootstrap))

		By("running the first deployment once more after a restart of the agent")
		Expect(component(2, Decorate(c, nil)).Deploy(ctx)).To(Succeed())
		Expect(get().Spec.Replicas).To(Equal(int32(3)))

		By("deploying the ordinary specification")
		Expect(component(3, c).Deploy(ctx)).To(Succeed())
		etcd = get()
		Expect(*etcd.Spec.Etcd.ServerPort).To(Equal(int32(2380)))
		Expect(etcd.Spec.Etcd.BootstrapWithExistingCluster).To(BeNil())

		By("not bringing the bootstrap back")
		Expect(
			component(3, Decorate(c,
				map[string]*druidcorev1alpha1.BootstrapWithExistingCluster{"etcd-main": bootstrap})).Deploy(ctx)).
			To(Succeed())
		etcd = get()
		Expect(*etcd.Spec.Etcd.ServerPort).To(Equal(int32(2380)))
		Expect(etcd.Spec.Etcd.BootstrapWithExistingCluster).To(BeNil())
	})

	It("should never create an Etcd that would be a cluster of its own", func() {
		Expect(component(2, Decorate(c, nil)).Deploy(ctx)).
			To(MatchError(ContainSubstring("no cluster given for it to join")))
	})

	It("should leave other objects alone", func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
		Expect(Decorate(c, nil).Create(ctx, secret)).To(Succeed())
	})
})
