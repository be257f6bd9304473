// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/source"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Abandoning the destination", func() {
	var (
		ctx      = context.Background()
		clusters map[string]*fakecluster.Cluster
		deps     *source.Deps
		m        *migration.Migration
		// closed are the clusters' members at the moment at which the relay was deleted.
		closed map[string][]string

		member = func(seed, etcdRole string, ordinal int) string {
			return fmt.Sprintf("%s-etcd-%s-%d", seed, etcdRole, ordinal)
		}
		join = func(etcdRole string) *fakecluster.Cluster {
			GinkgoHelper()
			cluster := fakecluster.New(func(name string) string {
				return fmt.Sprintf("https://%s.etcd-%s-peer.%s.svc:2380", name[len("seed-a-"):], etcdRole, namespace)
			}, member("seed-a", etcdRole, 0), member("seed-a", etcdRole, 1), member("seed-a", etcdRole, 2))
			for ordinal := range 2 {
				id, err := cluster.AddLearner(fmt.Sprintf("https://etcd-%s-%d.etcd-%s-peer.%s.svc:2381", etcdRole,
					ordinal, etcdRole, namespace))
				Expect(err).NotTo(HaveOccurred())
				cluster.Start(id, member("seed-b", etcdRole, ordinal))
				cluster.CatchUp(id)
				Expect(cluster.Promote(ctx, id)).To(Succeed())
			}
			return cluster
		}
	)

	BeforeEach(func() {
		clusters, closed = map[string]*fakecluster.Cluster{"main": join("main"), "events": join("events")},
			map[string][]string{}
		relay := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "livecpm-relay"}}
		seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(relay).
			WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch,
				object client.Object, options ...client.DeleteOption) error {
				if _, is := object.(*appsv1.StatefulSet); is {
					// Without the relay, nobody reaches the destination's members.
					for etcdRole, cluster := range clusters {
						closed[etcdRole] = cluster.Names()
						for ordinal := range 2 {
							cluster.SetUp(member("seed-b", etcdRole, ordinal), false)
						}
					}
				}
				return c.Delete(ctx, object, options...)
			}}).Build()
		deps = newDeps()
		// The Seed of the destination is gone as well.
		deps.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}}).Build()
		deps.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			return clusters[etcdRole], nil
		}
		m = &migration.Migration{
			Log: logr.Discard(), Clock: clock.RealClock{}, Role: steps.Source, Step: steps.AbortOf(steps.Source),
			SourceSeed: "seed-a", DestinationSeed: "seed-b",
			Shoot: &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace,
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: reached(4)}}},
			Report: func(context.Context, steps.Reason, string) error { return nil },
		}
	})

	It("should close the way before it removes a member, also if the destination's Seed is gone", func() {
		outcome, err := source.Abandon(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(outcome.Message).To(And(ContainSubstring("Left there"),
			ContainSubstring("a kube-apiserver without a quorum")))
		for etcdRole, cluster := range clusters {
			Expect(closed[etcdRole]).To(HaveLen(5), "members that are removed while they reach the others join again")
			Expect(cluster.Names()).To(Equal([]string{member("seed-a", etcdRole, 0), member("seed-a", etcdRole, 1),
				member("seed-a", etcdRole, 2)}))
		}
	})

	It("should be told from an abort, which touches nothing while members of the destination are in the lists", func() {
		outcome, err := source.Abort(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeFalse())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForSourceEtcd))
		Expect(outcome.Message).To(ContainSubstring("still answers although the destination has withdrawn"))
		Expect(closed).To(BeEmpty())
		Expect(clusters["main"].Names()).To(HaveLen(5))
	})

	DescribeTable("should leave everything alone", func(down []string, reason steps.Reason, message string) {
		for _, name := range down {
			clusters["main"].SetUp(name, false)
		}
		outcome, err := source.Abandon(ctx, deps, m)
		if reason == "" {
			Expect(err).To(HaveOccurred())
		} else {
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Reason).To(Equal(reason))
			Expect(outcome.Message).To(And(ContainSubstring("Nothing is touched"), ContainSubstring(message)))
		}
		Expect(closed).To(BeEmpty())
		Expect(clusters["main"].Names()).To(HaveLen(5))
		Expect(clusters["events"].Names()).To(HaveLen(5))
	},
		Entry("when the source needs the destination's members for a quorum", []string{"seed-a-etcd-main-2"},
			steps.ReasonQuorumAtRisk, "Bring the members of the source back"),
		Entry("when the quorum is lost", []string{"seed-a-etcd-main-2", "seed-b-etcd-main-0", "seed-b-etcd-main-1"},
			steps.ReasonQuorumLost, "docs/operations/recovery.md"),
	)
})
