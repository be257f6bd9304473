// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"fmt"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("A member of the destination that loses its data while all restart", func() {
	const before, after = "etcd-6d5f7c9b4", "etcd-7f8c6d9b5"

	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint
	)

	plainURL := func(etcdRole string, ordinal int) string {
		return naming.PeerURL(steps.Source, namespace, etcdRole, ordinal)
	}
	configMap := func(etcdRole string) *corev1.ConfigMap {
		GinkgoHelper()
		out := &corev1.ConfigMap{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole) + "-config"},
			out)).To(Succeed())
		return out
	}
	initialCluster := func(etcdRole string) string {
		GinkgoHelper()
		content := map[string]any{}
		Expect(yaml.Unmarshal([]byte(configMap(etcdRole).Data["etcd.conf.yaml"]), &content)).To(Succeed())
		return content["initial-cluster"].(string)
	}
	// written is the ordinary initial cluster, as etcd-druid writes it.
	written := func(etcdRole string) string {
		var entries []string
		for ordinal := range naming.MembersPerSeed {
			entries = append(entries, memberName("seed-b", etcdRole, ordinal)+"="+plainURL(etcdRole, ordinal))
		}
		return strings.Join(entries, ",")
	}
	// restart gives a member the ordinary specification.
	restart := func(etcdRole string, ordinal int) {
		GinkgoHelper()
		p := &corev1.Pod{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.PodName(etcdRole, ordinal)}, p)).
			To(Succeed())
		p.Labels = map[string]string{appsv1.StatefulSetRevisionLabel: after}
		Expect(s.client.Update(ctx, p)).To(Succeed())
		s.clusters[etcdRole].SetPeerURLs(memberName("seed-b", etcdRole, ordinal), plainURL(etcdRole, ordinal))
	}
	// roll restarts so many members, the highest ordinal first, and holds the others.
	roll := func(etcdRole string, restarted int) {
		GinkgoHelper()
		statefulSet := &appsv1.StatefulSet{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}, statefulSet)).
			To(Succeed())
		lowest := int32(min(naming.MembersPerSeed-1, naming.MembersPerSeed-restarted)) // #nosec G115 -- One of three.
		statefulSet.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &lowest}
		Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
		statefulSet.Status.UpdateRevision, statefulSet.Status.ObservedGeneration = after, statefulSet.Generation
		Expect(s.client.Status().Update(ctx, statefulSet)).To(Succeed())
		for ordinal := naming.MembersPerSeed - 1; ordinal >= naming.MembersPerSeed-restarted; ordinal-- {
			restart(etcdRole, ordinal)
		}
	}
	// rejoin lets a member start that has lost its data. Its sidecar adds it with the ordinary peer URL.
	rejoin := func(etcdRole string, ordinal int, look func()) error {
		GinkgoHelper()
		name, cluster := memberName("seed-b", etcdRole, ordinal), s.clusters[etcdRole]
		cluster.SetUp(name, false)
		look()
		list, err := cluster.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, member := range list.Members {
			if member.Name == name {
				Expect(cluster.Remove(ctx, member.ID)).To(Succeed())
			}
		}
		id, err := cluster.AddLearner(plainURL(etcdRole, ordinal))
		Expect(err).NotTo(HaveOccurred())
		look()
		if err := cluster.Join(id, name, served(initialCluster(etcdRole), cluster, name)); err != nil {
			return err
		}
		cluster.CatchUp(id)
		return cluster.Promote(ctx, id)
	}

	BeforeEach(func() {
		s = newSeedsOf("seed-b")
		j = s.joint(steps.Destination)
		for _, etcdRole := range naming.EtcdRoles {
			s.retireSource(etcdRole, 0)
			config := configMap(etcdRole)
			config.Data["etcd.conf.yaml"] = strings.Replace(configOf("seed-a", etcdRole),
				druidInitialCluster("seed-a", etcdRole, naming.MembersPerSeed, nil), written(etcdRole), 1)
			Expect(s.client.Update(ctx, config)).To(Succeed())
			for ordinal := range naming.MembersPerSeed {
				p := &corev1.Pod{}
				Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace,
					Name: naming.PodName(etcdRole, ordinal)}, p)).To(Succeed())
				p.Labels = map[string]string{appsv1.StatefulSetRevisionLabel: before}
				Expect(s.client.Update(ctx, p)).To(Succeed())
			}
		}
	})

	It("should not start with what etcd-druid has written", func() {
		roll("main", 1)
		Expect(rejoin("main", 1, func() {})).To(MatchError(fakecluster.ErrPeerURLs))
	})

	for _, etcdRole := range naming.EtcdRoles {
		for restarted := range naming.MembersPerSeed + 1 {
			It(fmt.Sprintf("should join again beside those with another peer URL, in etcd-%s with %d restarted",
				etcdRole, restarted), func() {
				look := func() {
					GinkgoHelper()
					progress, err := j.RollNext(ctx, etcdRole)
					Expect(err).NotTo(HaveOccurred())
					Expect(progress.Reason).NotTo(Equal(steps.ReasonForeignEtcdMember))
				}
				roll(etcdRole, restarted)
				for ordinal := range naming.MembersPerSeed {
					look()
					Expect(rejoin(etcdRole, ordinal, look)).To(Succeed(), "ordinal %d", ordinal)
				}
				look()
				Expect(s.clusters[etcdRole].Names()).To(HaveLen(naming.MembersPerSeed))
			})
		}
	}

	It("should join again beside one that is about to restart and has both peer URLs", func() {
		roll("main", 1)
		s.clusters["main"].SetPeerURLs("seed-b-etcd-main-0", naming.PeerURL(steps.Destination, namespace, "main", 0),
			plainURL("main", 0))
		look := func() {
			GinkgoHelper()
			_, err := j.RollNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
		}
		former := configMap("main").Data
		look()
		Expect(rejoin("main", 1, look)).To(Succeed())
		Expect(initialCluster("main")).To(Equal(strings.Join([]string{
			"seed-b-etcd-main-0=" + plainURL("main", 0),
			"seed-b-etcd-main-0=" + naming.PeerURL(steps.Destination, namespace, "main", 0),
			"seed-b-etcd-main-1=" + plainURL("main", 1),
			"seed-b-etcd-main-2=" + plainURL("main", 2),
		}, ",")))
		look()
		Expect(configMap("main").Data).To(Equal(former))
	})

	It("should find the others by their peer URLs, and leave what etcd-druid has written otherwise", func() {
		former := configMap("main").Data
		look := func() {
			GinkgoHelper()
			_, err := j.RollNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
		}
		roll("main", 1)
		look()
		s.clusters["main"].SetUp(memberName("seed-b", "main", 1), false)
		look()
		Expect(configMap("main").Data).To(Equal(former), "a member that restarts has its vote")

		Expect(rejoin("main", 1, look)).To(Succeed())
		Expect(initialCluster("main")).To(Equal(strings.Join([]string{
			"seed-b-etcd-main-0=" + naming.PeerURL(steps.Destination, namespace, "main", 0),
			"seed-b-etcd-main-1=" + plainURL("main", 1),
			"seed-b-etcd-main-2=" + plainURL("main", 2),
		}, ",")))
		look()
		Expect(configMap("main").Data).To(Equal(former))
	})

	Describe("while nobody accompanies the restart", func() {
		suspend := func() {
			GinkgoHelper()
			etcd := &druidcorev1alpha1.Etcd{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, etcd)).To(Succeed())
			etcd.Annotations = map[string]string{
				druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation:       "true",
				druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation: "true",
			}
			Expect(s.client.Update(ctx, etcd)).To(Succeed())
		}
		look := func() {
			GinkgoHelper()
			Expect(j.KeepRolledCluster(ctx)).To(Succeed())
		}

		It("should join again, as long as the restart is held", func() {
			former := configMap("main").Data
			roll("main", 1)
			suspend()
			Expect(rejoin("main", 1, look)).To(Succeed())
			look()
			Expect(configMap("main").Data).To(Equal(former))
		})

		It("should be given nothing where no restart is under way", func() {
			roll("main", 1)
			former := configMap("main").Data
			Expect(rejoin("main", 1, look)).To(MatchError(fakecluster.ErrPeerURLs))
			Expect(configMap("main").Data).To(Equal(former))
		})
	})

	It("should keep no other member from restarting when the configuration cannot be changed", func() {
		broken := configMap("main")
		broken.Data = map[string]string{"etcd.conf.yaml": "{"}
		Expect(s.client.Update(ctx, broken)).To(Succeed())
		roll("main", 1)
		Eventually(func() (string, error) {
			progress, err := j.RollNext(ctx, "main")
			return progress.Message, err
		}).Should(Equal("member 1 may restart"))
	})
})
