// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Abandoning the source", func() {
	var (
		ctx      = context.Background()
		clusters map[string]*fakecluster.Cluster
		deps     *destination.Deps
		m        *migration.Migration
		relay    *appsv1.StatefulSet
		// closed are the clusters' members at the moment at which the relay was deleted.
		closed map[string][]string
		alone  error

		member = func(seed, etcdRole string, ordinal int) string {
			return fmt.Sprintf("%s-etcd-%s-%d", seed, etcdRole, ordinal)
		}
		// cluster has the three members of the destination and so many of the source.
		cluster = func(etcdRole string, left int) *fakecluster.Cluster {
			names := []string{}
			for ordinal := range 3 {
				names = append(names, member("seed-b", etcdRole, ordinal))
			}
			for ordinal := range left {
				names = append(names, member("seed-a", etcdRole, ordinal))
			}
			return fakecluster.New(func(name string) string {
				port := map[string]int{"seed-a-": 2380, "seed-b-": 2381}[name[:len("seed-a-")]]
				return fmt.Sprintf("https://%s.etcd-%s-peer.%s.svc:%d", name[len("seed-a-"):], etcdRole, namespace,
					port)
			}, names...)
		}
		run = func() (steps.Outcome, error) { return destination.AbandonSource(ctx, deps, m, alone) }
	)

	setUp := func(main, events int) {
		clusters = map[string]*fakecluster.Cluster{"main": cluster("main", main), "events": cluster("events", events)}
		closed, alone = map[string][]string{}, nil
		relay = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "livecpm-relay"}}
		seed := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(relay).
			WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch,
				object client.Object, options ...client.DeleteOption) error {
				if _, is := object.(*appsv1.StatefulSet); is && len(closed) == 0 {
					for etcdRole, cluster := range clusters {
						closed[etcdRole] = cluster.Names()
						for ordinal := range 3 {
							cluster.SetUp(member("seed-a", etcdRole, ordinal), false)
						}
					}
				}
				return c.Delete(ctx, object, options...)
			}}).Build()
		deps = newDeps()
		// The Seed of the source is gone as well.
		deps.Garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b"}}).Build()
		deps.SeedClientSet = fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			return clusters[etcdRole], nil
		}
		m = newMigration()
		m.Log, m.Step = logr.Discard(), steps.Table()[6]
		m.Report = func(context.Context, steps.Reason, string) error { return nil }
		m.PeerAlive = func(context.Context) (string, error) { return "", nil }
	}
	exists := func() bool {
		err := deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(relay), &appsv1.StatefulSet{})
		return err == nil
	}

	DescribeTable("should close the way before it removes a member, also if the source's Seed is gone",
		func(main, events int) {
			setUp(main, events)
			outcome, err := run()
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Finished()).To(BeTrue())
			Expect(outcome.Message).To(And(ContainSubstring("Seed seed-a was abandoned"),
				ContainSubstring("Left there"), ContainSubstring("whose objects in the shoot must stay"),
				ContainSubstring("what exposes the shoot and its etcds at the ingress gateway"),
				Not(ContainSubstring("DNS"))), "its DNSRecords have left in step 5")
			Expect(closed["main"]).To(HaveLen(3 + main))
			Expect(closed["events"]).To(HaveLen(3 + events))
			Expect(clusters["main"].Names()).To(HaveLen(3))
			Expect(clusters["events"].Names()).To(HaveLen(3))
			Expect(exists()).To(BeFalse(), "nothing in the source reaches an etcd")
			again, err := run()
			Expect(err).NotTo(HaveOccurred())
			Expect(again).To(Equal(outcome), "it can be repeated")
		},
		Entry("in the seventh step", 0, 0),
		Entry("with members of the source left", 2, 1),
	)

	DescribeTable("should leave everything alone, and say why and what to do",
		func(prepare func(), messages ...string) {
			setUp(2, 2)
			prepare()
			outcome, err := run()
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Finished()).To(BeFalse())
			Expect(outcome.Reason).To(Equal(steps.ReasonAbandoningSource))
			for _, message := range append(messages, "Seed seed-a is not abandoned") {
				Expect(outcome.Message).To(ContainSubstring(message))
			}
			Expect(closed).To(BeEmpty())
			Expect(exists()).To(BeTrue())
			Expect(clusters["main"].Names()).To(HaveLen(5))
			Expect(clusters["events"].Names()).To(HaveLen(5))
		},
		Entry("when the source shows life", func() {
			m.PeerAlive = func(context.Context) (string, error) { return "its gardenlet answers", nil }
		}, "its gardenlet answers", "remove the annotation migration.gardener.cloud/abandon-source"),
		Entry("when a member of the destination is down", func() {
			clusters["events"].SetUp(member("seed-b", "events", 1), false)
		}, "QuorumAtRisk", "Bring the members of the destination back"),
		Entry("when the quorum is lost", func() {
			for ordinal := range 2 {
				clusters["main"].SetUp(member("seed-a", "main", ordinal), false)
			}
			clusters["main"].SetUp(member("seed-b", "main", 0), false)
		}, "QuorumLost", "docs/operations/recovery.md"),
		Entry("when clients are not served here", func() { alone = errors.New("DNS leads elsewhere") },
			"clients may need it", "DNS leads elsewhere"),
	)

	It("should touch nothing when it is not known whether the source shows life", func() {
		setUp(2, 2)
		m.PeerAlive = func(context.Context) (string, error) { return "", errors.New("no garden") }
		_, err := run()
		Expect(err).To(MatchError(ContainSubstring("no garden")))
		Expect(exists()).To(BeTrue())
	})

	It("should carry to its end what has begun, also if the source answers again: it has no etcd", func() {
		setUp(1, 1)
		Expect(run()).To(HaveField("Status", gardencorev1beta1.ConditionTrue))
		m.PeerAlive = func(context.Context) (string, error) { return "its gardenlet answers", nil }
		Expect(run()).To(HaveField("Status", gardencorev1beta1.ConditionTrue))
	})

	DescribeTable("should not let the agent of a later migration into that seed delete a whole control plane",
		func(left client.Object, message string) {
			setUp(0, 0)
			Expect(deps.SeedClientSet.Client().Create(ctx, left)).To(Succeed())
			Expect(destination.Clear(ctx, deps, m)).To(MatchError(And(ContainSubstring(message),
				ContainSubstring("Clear it by hand ("+pages.Recovery+")"))))
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(left), left)).To(Succeed())
			Expect(exists()).To(BeTrue())
		},
		Entry("with controllers", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: "machine-controller-manager"}}, "machine-controller-manager still has pods"),
		Entry("with machines", &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: "node-0"}}, "there are 1 objects of machines"),
	)

	DescribeTable("should not take the destination for whole", func(annotations map[string]string, message string) {
		setUp(0, 0)
		Expect(deps.SeedClientSet.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Annotations: annotations}})).To(Succeed())
		Expect(destination.ServesAlone(ctx, deps, m)).To(MatchError(ContainSubstring(message)))
	},
		Entry("before DNS has moved", nil, "have not been seen to lead to the destination"),
		Entry("while caches may name the source", map[string]string{
			destination.AnnotationMovedAt:   now.Add(-time.Second).UTC().Format(time.RFC3339),
			destination.AnnotationFormerTTL: "2m0s",
		}, "Caches may name the source until"),
	)
})
