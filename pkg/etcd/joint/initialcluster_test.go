// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const protection = "druid.gardener.cloud/disable-etcd-component-protection"

// druidInitialCluster is the initial cluster that etcd-druid v0.38.1 writes (internal/component/configmap,
// prepareInitialCluster): the members that the Etcd has by its replicas, and those of its bootstrap.
func druidInitialCluster(
	prefix, etcdRole string, replicas int, bootstrap *druidcorev1alpha1.BootstrapWithExistingCluster,
) string {
	role := steps.Source
	if prefix == "seed-b" {
		role = steps.Destination
	}
	var entries []string
	for ordinal := range replicas {
		name := memberName(prefix, etcdRole, ordinal)
		entries = append(entries, name+"="+peerURL(role, etcdRole)(name))
	}
	if bootstrap != nil {
		for _, member := range bootstrap.Members {
			for _, url := range member.PeerURLs {
				entries = append(entries, member.Name+"="+url)
			}
		}
	}
	return strings.Join(entries, ",")
}

// configOf is the configuration of the source's members as etcd-druid writes it, shortened. The order of the keys is
// that of the alphabet.
func configOf(prefix, etcdRole string) string {
	memberNamePrefix := ""
	if prefix != "" {
		memberNamePrefix = "member-name-prefix: " + prefix + "\n"
	}
	return fmt.Sprintf(`client-transport-security:
  auto-tls: false
  client-cert-auth: true
data-dir: /var/etcd/data/new.etcd
initial-advertise-peer-urls:
  %[3]s:
  - https://etcd-%[1]s-0.etcd-%[1]s-peer.shoot--demo--live.svc:2380
initial-cluster: %[2]s
initial-cluster-state: new
%[4]squota-backend-bytes: 8589934592
snapshot-count: 10000
`, etcdRole, druidInitialCluster(prefix, etcdRole, 3, nil), memberName(prefix, etcdRole, 0), memberNamePrefix)
}

// served is the initial cluster that the sidecar gives to etcd (etcd-backup-restore v0.44.1, getInitialCluster): what
// the ConfigMap has, without those who are not in the member list. The member itself has no name there yet.
func served(initialCluster string, cluster *fakecluster.Cluster, itself string) string {
	names := cluster.Names()
	if len(names) < 2 {
		return initialCluster
	}
	return strings.Join(slices.DeleteFunc(strings.Split(initialCluster, ","), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name != itself && !slices.Contains(names, name)
	}), ",")
}

var _ = Describe("The initial cluster", func() {
	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint
	)

	config := func(etcdRole string) string {
		GinkgoHelper()
		configMap := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole) + "-config"}
		Expect(s.client.Get(ctx, key, configMap)).To(Succeed())
		return configMap.Data["etcd.conf.yaml"]
	}
	initialCluster := func(etcdRole string) string {
		GinkgoHelper()
		content := map[string]any{}
		Expect(yaml.Unmarshal([]byte(config(etcdRole)), &content)).To(Succeed())
		return content["initial-cluster"].(string)
	}
	etcd := func(etcdRole string) *druidcorev1alpha1.Etcd {
		GinkgoHelper()
		out := &druidcorev1alpha1.Etcd{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}, out)).
			To(Succeed())
		return out
	}
	// rejoin lets a member start that has lost its data, up to a healthy voter.
	rejoin := func(role steps.Role, etcdRole string, ordinal int, configured string) error {
		GinkgoHelper()
		seed := map[steps.Role]string{steps.Source: "seed-a", steps.Destination: "seed-b"}[role]
		name, cluster := memberName(s.prefixOf(seed), etcdRole, ordinal), s.clusters[etcdRole]
		id := s.loseData(role, etcdRole, ordinal)
		if err := cluster.Join(id, name, served(configured, cluster, name)); err != nil {
			return err
		}
		cluster.CatchUp(id)
		Expect(cluster.Promote(ctx, id)).To(Succeed())
		return nil
	}

	BeforeEach(func() {
		s = newSeeds()
		j = s.joint(steps.Source)
	})

	for _, etcdRole := range naming.EtcdRoles {
		for joined := range naming.MembersPerSeed + 1 {
			It(fmt.Sprintf("should let each member of the source that loses its data join again, "+
				"in etcd-%s with %d of the destination", etcdRole, joined), func() {
				Expect(j.WidenInitialCluster(ctx)).To(Succeed())
				s.joinDestination(etcdRole, joined)
				for ordinal := range naming.MembersPerSeed {
					Expect(rejoin(steps.Source, etcdRole, ordinal, initialCluster(etcdRole))).To(Succeed())
				}
				Expect(s.clusters[etcdRole].Names()).To(HaveLen(3 + joined))
			})
		}
	}

	It("should be what keeps such a member from starting, as etcd-druid writes it", func() {
		s.joinDestination("main", 2)
		Expect(rejoin(steps.Source, "main", 1, initialCluster("main"))).To(MatchError(fakecluster.ErrPeerURLs))
	})

	DescribeTable("names all that a member of the destination needs that loses its data",
		func(replicas, leave int) {
			bootstrap, err := s.joint(steps.Destination).Bootstrap(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			s.joinDestination("main", replicas)
			s.removeSource("main", 3-leave)
			for ordinal := range replicas {
				Expect(rejoin(steps.Destination, "main", ordinal,
					druidInitialCluster("seed-b", "main", replicas, bootstrap))).To(Succeed())
			}
		},
		Entry("steps 3 to 5", 2, 0),
		Entry("step 6 with six voters", 3, 0),
		Entry("step 6 with five voters", 3, 1),
		Entry("step 6 with four voters", 3, 2),
		Entry("step 6 without the source", 3, 3),
	)

	It("should be all that changes, once, and protected again", func() {
		before := map[string]string{"main": config("main"), "events": config("events")}
		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			former := druidInitialCluster("seed-a", etcdRole, 3, nil)
			Expect(config(etcdRole)).To(Equal(strings.Replace(before[etcdRole], former,
				former+","+druidInitialCluster("seed-b", etcdRole, 3, nil), 1)))
			Expect(etcd(etcdRole).Annotations).To(BeEmpty())
		}
		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		Expect(s.happened()).To(ConsistOf("changed etcd-main-config", "changed etcd-events-config"))
	})

	It("should be as before after an abort, also if etcd-druid has written it meanwhile", func() {
		before := config("main")
		Expect(j.NarrowInitialCluster(ctx)).To(Succeed())
		Expect(s.happened()).To(BeEmpty())

		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		Expect(j.NarrowInitialCluster(ctx)).To(Succeed())
		Expect(config("main")).To(Equal(before))
		Expect(etcd("main").Annotations).To(BeEmpty())
	})

	It("should be changed again when etcd-druid has written its own content", func() {
		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		widened := config("main")
		configMap := &corev1.ConfigMap{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-config"}, configMap)).
			To(Succeed())
		configMap.Data["etcd.conf.yaml"] = configOf("seed-a", "main")
		Expect(s.client.Update(ctx, configMap)).To(Succeed())
		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		Expect(config("main")).To(Equal(widened))
	})

	It("should be tried again while the webhook does not know yet that it may be changed", func() {
		s.lag = 3
		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		Expect(etcd("main").Annotations).To(BeEmpty())
		Expect(etcd("events").Annotations).To(BeEmpty())
	})

	It("should be given up when the webhook refuses it for good, and leave nothing behind", func() {
		clock := testclock.NewFakeClock(time.Now())
		j = s.joint(steps.Source, func(config *Config) { config.Clock, config.PollInterval = clock, time.Second })
		s.lag = 1000
		result := make(chan error, 1)
		go func() { result <- j.WidenInitialCluster(ctx) }()
		Eventually(func() bool {
			if clock.HasWaiters() {
				clock.Step(time.Second)
			}
			return len(result) > 0
		}).Should(BeTrue())
		Expect(<-result).To(MatchError(ContainSubstring("denied the request")))
		Expect(etcd("main").Annotations).To(BeEmpty())
		Expect(config("main")).To(Equal(configOf("seed-a", "main")))
	})

	It("should leave the permission to whoever has suspended etcd-druid", func() {
		Expect(j.PrepareRetirement(ctx)).To(Succeed())
		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		Expect(j.NarrowInitialCluster(ctx)).To(Succeed())
		Expect(etcd("main").Annotations).To(HaveKey(protection))
	})

	It("should take away what an interruption has left, when it is narrowed", func() {
		interrupted := etcd("main")
		metav1.SetMetaDataAnnotation(&interrupted.ObjectMeta, protection, "true")
		Expect(s.client.Update(ctx, interrupted)).To(Succeed())
		Expect(j.NarrowInitialCluster(ctx)).To(Succeed())
		Expect(etcd("main").Annotations).To(BeEmpty())
	})

	DescribeTable("is not guessed", func(content, message string) {
		configMap := &corev1.ConfigMap{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-config"}, configMap)).
			To(Succeed())
		configMap.Data = map[string]string{"etcd.conf.yaml": content}
		Expect(s.client.Update(ctx, configMap)).To(Succeed())
		Expect(j.WidenInitialCluster(ctx)).
			To(MatchError(And(ContainSubstring("etcd-main-config"), ContainSubstring(message))))
		Expect(config("main")).To(Equal(content))
	},
		Entry("if the configuration has none", "data-dir: /x\n", "has no initial-cluster"),
		Entry("if there is no configuration", "", "has no initial-cluster"),
		Entry("if the configuration cannot be read", "{", "failed to read the configuration"),
	)
})
