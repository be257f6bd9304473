// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"fmt"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Giving the etcds their ordinary specification", func() {
	It("should change nothing while a member of the source is in a list", func() {
		var objects []client.Object
		for _, etcdRole := range naming.EtcdRoles {
			objects = append(objects, &druidcorev1alpha1.Etcd{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.EtcdName(etcdRole)}})
		}
		deps, m := newDeps(objects...), newMigration()
		m.Log = logr.Discard()
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			names := []string{naming.MemberName("seed-b", etcdRole, 0), naming.MemberName("seed-b", etcdRole, 1),
				naming.MemberName("seed-b", etcdRole, 2)}
			if etcdRole == "events" {
				names = append(names, naming.MemberName("seed-a", etcdRole, 0))
			}
			return fake.New(func(name string) string { return "https://" + name + ":2380" }, names...), nil
		}
		Expect(destination.DeployPlainEtcds(ctx, deps, m)).
			To(MatchError("failed to deploy etcd-events: 1 members of the source are still in its member list"))
		for _, object := range objects {
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			Expect(object.GetAnnotations()).To(BeEmpty())
		}
	})
})

var _ = Describe("Leaving the ports of the migration", func() {
	// world is a destination whose exposure is withdrawn, with members on the ports of the given roles.
	world := func(roleOf func(etcdRole string, ordinal int) steps.Role) (*destination.Deps, *migration.Migration) {
		GinkgoHelper()
		etcd := func(name string) *druidcorev1alpha1.Etcd {
			return &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Status: druidcorev1alpha1.EtcdStatus{ObservedGeneration: new(int64)}}
		}
		policy := func(name string) *networkingv1.NetworkPolicy {
			return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		}
		deps := newDeps(etcd("etcd-main"), etcd("etcd-events"), policy("deny-all"), policy("livecpm-relay"),
			policy("livecpm-relay-dialers"), policy("livecpm-relay-etcd"))
		deps.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}},
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b"}}).Build()
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			var names []string
			for ordinal := range naming.MembersPerSeed {
				names = append(names, naming.MemberName("seed-b", etcdRole, ordinal))
			}
			return fake.New(func(name string) string {
				var ordinal int
				_, err := fmt.Sscanf(name[strings.LastIndex(name, "-"):], "-%d", &ordinal)
				Expect(err).NotTo(HaveOccurred())
				return naming.PeerURL(roleOf(etcdRole, ordinal), namespace, etcdRole, ordinal)
			}, names...), nil
		}
		m := newMigration()
		m.Report = func(context.Context, steps.Reason, string) error { return nil }
		Expect(destination.WithdrawTunnel(ctx, deps, m)).To(Succeed())
		return deps, m
	}
	// policies says which NetworkPolicies the seed has after some of the members have left the destination's port.
	policies := func(roleOf func(etcdRole string, ordinal int) steps.Role) (missing string, left []string) {
		GinkgoHelper()
		deps, m := world(roleOf)
		missing, err := destination.LeaveMigrationPorts(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		list := &networkingv1.NetworkPolicyList{}
		Expect(deps.SeedClientSet.Client().List(ctx, list)).To(Succeed())
		for _, policy := range list.Items {
			left = append(left, policy.Name)
		}
		return missing, left
	}

	It("should permit the members their ports until the last one has left them", func() {
		missing, left := policies(func(etcdRole string, ordinal int) steps.Role {
			if etcdRole == "events" && ordinal == 2 {
				return steps.Destination
			}
			return steps.Source
		})
		Expect(missing).To(ContainSubstring(":2381"))
		Expect(left).To(ConsistOf("deny-all", "livecpm-relay-etcd"))
	})

	It("should come before the hand-over", func() {
		deps, m := world(func(etcdRole string, ordinal int) steps.Role {
			if etcdRole == "main" && ordinal == 0 {
				return steps.Destination
			}
			return steps.Source
		})
		m.Log = logr.Discard()
		outcome, err := destination.Finish(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeFalse())
		Expect(outcome.Reason).To(Equal(steps.ReasonRollingEtcd))
		Expect(outcome.Message).To(ContainSubstring(":2381"))

		deps, m = world(func(string, int) steps.Role { return steps.Source })
		outcome, err = destination.Finish(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
	})

	It("should leave no policy of the migration afterwards", func() {
		missing, left := policies(func(string, int) steps.Role { return steps.Source })
		Expect(missing).To(BeEmpty())
		Expect(left).To(ConsistOf("deny-all"))
	})
})
