// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// An Etcd that was created before Gardener put the seed's name before the names of members keeps names without it.
var _ = Describe("Etcds that are older than the prefix", func() {
	var ctx = context.Background()

	It("should be joined and retired as others are", func() {
		s := newSeedsWith("seed-a", "")
		destination := s.joint(steps.Destination)
		Expect(destination.CheckSource(ctx)).To(Succeed())
		bootstrap, err := destination.Bootstrap(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(bootstrap.Members).To(HaveLen(3))
		Expect(bootstrap.Members[2].Name).To(Equal("etcd-main-2"))

		s.joinDestination("main", 3)
		s.joinDestination("events", 3)
		report := safely(func(message string) {
			if strings.Contains(message, "waiting until the agent of the destination") {
				for _, etcdRole := range naming.EtcdRoles {
					_, err := destination.TakeLeadership(ctx, etcdRole)
					Expect(err).NotTo(HaveOccurred())
				}
			}
		})
		keep := func(context.Context) error { return nil }
		Expect(s.joint(steps.Source).Retire(ctx, keep, report)).To(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			Expect(s.clusters[etcdRole].Names()).To(Equal([]string{memberName("seed-b", etcdRole, 0),
				memberName("seed-b", etcdRole, 1), memberName("seed-b", etcdRole, 2)}))
		}
		Expect(s.happened()).To(ContainElements("removed etcd-main-2", "removed etcd-main-1", "removed etcd-main-0"))
		left, message, err := destination.OnlyDestinationLeft(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(message).To(BeEmpty())
		Expect(left).To(BeTrue())
	})

	It("should be as before after an abort, and then be joined again", func() {
		s := newSeedsWith("seed-b", "")
		destination := s.joint(steps.Destination)
		s.joinDestination("main", 2)
		s.joinDestination("events", 1)
		s.lead("main", "seed-b-etcd-main-0")
		Expect(destination.Withdraw(ctx, nil)).To(Succeed())
		Expect(s.joint(steps.Source).RemoveDestination(ctx)).To(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			Expect(s.clusters[etcdRole].Names()).To(Equal([]string{memberName("", etcdRole, 0),
				memberName("", etcdRole, 1), memberName("", etcdRole, 2)}))
		}
		_, err := destination.Bootstrap(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
	})

	It("should let members that lose their data join again in the middle of a migration", func() {
		s := newSeedsWith("seed-a", "")
		j := s.joint(steps.Source)
		Expect(j.WidenInitialCluster(ctx)).To(Succeed())
		s.joinDestination("main", 2)

		configMap := &corev1.ConfigMap{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-config"}, configMap)).
			To(Succeed())
		content := map[string]any{}
		Expect(yaml.Unmarshal([]byte(configMap.Data["etcd.conf.yaml"]), &content)).To(Succeed())
		for ordinal := range naming.MembersPerSeed {
			id := s.loseData(steps.Source, "main", ordinal)
			seen, err := j.Observe(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			member, _ := seen.Members.ByID(id)
			Expect(member.Side).To(Equal(quorum.Source))

			name, cluster := memberName("", "main", ordinal), s.clusters["main"]
			Expect(cluster.Join(id, name, served(content["initial-cluster"].(string), cluster, name))).To(Succeed())
			cluster.CatchUp(id)
			Expect(cluster.Promote(ctx, id)).To(Succeed())
		}
	})

	It("should be found in the same places as others", func() {
		s := newSeedsWith("seed-a", "")
		member := etcdclient.Member{Name: "etcd-main-1"}
		endpoint, err := NewLocator(s.joint(steps.Source), "main").Member(ctx, member)
		Expect(err).NotTo(HaveOccurred())
		Expect(endpoint.Address).To(Equal("10.0.0.1:2379"))
		endpoint, err = NewLocator(s.joint(steps.Destination), "main").Member(ctx, member)
		Expect(err).NotTo(HaveOccurred())
		Expect(endpoint).To(Equal(etcdclient.Endpoint{Address: naming.RelayClientAddress(namespace),
			ServerName: naming.MemberHost(namespace, "main", 1)}))
	})
})

var _ = DescribeTable("The side of a member", func(name string, inSource []string, expected quorum.Side) {
	ctx := context.Background()
	s := newSeedsWith("seed-a", inSource[0])
	for _, prefix := range inSource[1:] {
		// One that nobody expects, beside those of the source.
		id, err := s.clusters["main"].AddLearner("https://elsewhere:2380")
		Expect(err).NotTo(HaveOccurred())
		s.clusters["main"].Start(id, memberName(prefix, "main", 0))
		s.clusters["main"].CatchUp(id)
		Expect(s.clusters["main"].Promote(ctx, id)).To(Succeed())
	}
	j := s.joint(steps.Source)
	s.joinDestination("main", 1)
	seen, err := j.Observe(ctx, "main")
	Expect(err).NotTo(HaveOccurred())
	sides := map[string]quorum.Side{}
	for _, member := range seen.Members {
		sides[member.Name] = member.Side
	}
	Expect(sides).To(HaveKeyWithValue(name, expected))

	progress, err := j.Advance(ctx, "main", 1)
	Expect(err).NotTo(HaveOccurred())
	if expected == quorum.Foreign {
		Expect(progress.Reason).To(Equal(steps.ReasonForeignEtcdMember))
	} else {
		Expect(progress.Reason).NotTo(Equal(steps.ReasonForeignEtcdMember))
	}
},
	Entry("of a source with prefix", "seed-a-etcd-main-0", []string{"seed-a"}, quorum.Source),
	Entry("of a source without", "etcd-main-0", []string{""}, quorum.Source),
	Entry("of the destination", "seed-b-etcd-main-0", []string{""}, quorum.Destination),
	Entry("without prefix, beside members of the source that have it", "etcd-main-0", []string{"seed-a", ""},
		quorum.Foreign),
	Entry("of a third seed", "seed-c-etcd-main-0", []string{"", "seed-c"}, quorum.Foreign),
	Entry("with the prefix, beside members of the source that have none", "etcd-main-2", []string{"", "seed-a"},
		quorum.Foreign),
)
