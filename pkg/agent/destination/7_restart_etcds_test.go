// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Restarting the etcds beside the cleanup of the source", func() {
	const revision = "etcd-7f8c6d9b5"

	var (
		deps     *destination.Deps
		m        *migration.Migration
		clusters map[string]*fake.Cluster
	)

	bootstrap := &druidcorev1alpha1.BootstrapWithExistingCluster{}
	suspended := map[string]string{druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation: "true"}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	// relay is the relay of the destination, which listens on the port of the source's members, and one of its pods.
	relay := func() []client.Object {
		statefulSet := &appsv1.StatefulSet{ObjectMeta: meta("livecpm-relay")}
		statefulSet.Spec.Template.Spec.Containers = []corev1.Container{{Name: "relay", Ports: []corev1.ContainerPort{
			{Name: "peer", ContainerPort: naming.PeerPort(steps.Source)}}}}
		pod := &corev1.Pod{ObjectMeta: meta("livecpm-relay-0"),
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.0.1"}}
		pod.Labels = map[string]string{"app": "livecpm-relay"}
		return []client.Object{statefulSet, pod}
	}
	// setUp makes a destination whose members are the only ones left, with an Etcd as it is given for each etcd. All
	// members have restarted with the newest template.
	setUp := func(etcd func() *druidcorev1alpha1.Etcd, role steps.Role, others ...client.Object) {
		GinkgoHelper()
		objects, held := others, int32(2)
		clusters = map[string]*fake.Cluster{}
		for _, etcdRole := range naming.EtcdRoles {
			e := etcd()
			e.ObjectMeta.Namespace, e.ObjectMeta.Name = namespace, naming.EtcdName(etcdRole)
			e.Status.ObservedGeneration = new(int64)
			statefulSet := &appsv1.StatefulSet{ObjectMeta: meta(naming.EtcdName(etcdRole)),
				Spec: appsv1.StatefulSetSpec{Replicas: new(int32(naming.MembersPerSeed)),
					UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
						RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &held}}},
				Status: appsv1.StatefulSetStatus{UpdateRevision: revision}}
			configMap := &corev1.ConfigMap{ObjectMeta: meta(naming.EtcdName(etcdRole) + "-config"),
				Data: map[string]string{"etcd.conf.yaml": "initial-cluster: a=https://a:2380\n"}}
			objects = append(objects, e, statefulSet, configMap)
			var names []string
			for ordinal := range naming.MembersPerSeed {
				names = append(names, naming.MemberName("seed-b", etcdRole, ordinal))
				pod := &corev1.Pod{ObjectMeta: meta(naming.PodName(etcdRole, ordinal)), Status: corev1.PodStatus{
					Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
				pod.Labels = map[string]string{appsv1.StatefulSetRevisionLabel: revision}
				objects = append(objects, pod)
			}
			clusters[etcdRole] = fake.New(func(name string) string {
				return naming.PeerURL(role, namespace, etcdRole, int(name[len(name)-1]-'0'))
			}, names...)
		}
		deps = newDeps(objects...)
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			return clusters[etcdRole], nil
		}
		m = newMigration()
		m.Clock = &leaping{testclock.NewFakeClock(now)}
		m.Step, _ = steps.Get(gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup)
	}
	restart := func() steps.Outcome {
		GinkgoHelper()
		outcome, err := destination.RestartEtcds(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		return outcome
	}
	etcd := func() *druidcorev1alpha1.Etcd {
		GinkgoHelper()
		out := &druidcorev1alpha1.Etcd{}
		Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, out)).
			To(Succeed())
		return out
	}
	joined := func() *druidcorev1alpha1.Etcd {
		out := &druidcorev1alpha1.Etcd{}
		out.Spec.Etcd.BootstrapWithExistingCluster = bootstrap
		return out
	}
	expectUntouched := func() {
		GinkgoHelper()
		Expect(etcd().Spec.Etcd.BootstrapWithExistingCluster).NotTo(BeNil())
		for etcdRole, cluster := range clusters {
			Expect(cluster.Calls()).To(BeEmpty(), etcdRole)
		}
	}

	It("should leave only members to the last step: nobody would serve meanwhile", func() {
		setUp(joined, steps.Destination)
		m.Shoot.Annotations[steps.AnnotationWithGap] = "true"
		Expect(restart().Finished()).To(BeTrue())
		expectUntouched()
	})

	DescribeTable("does not begin", func(prepare func(), reason steps.Reason, message string) {
		setUp(joined, steps.Destination)
		prepare()
		outcome := restart()
		Expect(outcome.Finished()).To(BeFalse())
		Expect(outcome.Reason).To(Equal(reason))
		Expect(outcome.Message).To(ContainSubstring(message))
		expectUntouched()
	},
		Entry("before a pause", func() {
			m.Shoot.Annotations[steps.AnnotationPauseBefore] = steps.Last().String()
		}, steps.ReasonPaused, "before which the migration is to be paused"),
		Entry("with an obstacle", func() {
			m.Obstacle = func(context.Context) (steps.Reason, string) {
				return steps.ReasonVersionSkew, "the versions differ"
			}
		}, steps.ReasonVersionSkew, "the versions differ"),
		Entry("in a seed that is overloaded", func() {
			clusters["main"].SetTook("seed-b-etcd-main-0", 2300*time.Millisecond)
		}, steps.ReasonSeedOverloaded, "the seed is overloaded"),
		Entry("while a member is being defragmented", func() {
			clusters["events"].SetDefragmenting("seed-b-etcd-events-1", true)
		}, steps.ReasonEtcdDefragmenting, "seed-b-etcd-events-1"),
	)

	It("should not begin before caches have forgotten that members' names led to the relay", func() {
		setUp(joined, steps.Destination, relay()...)
		outcome := restart()
		Expect(outcome.Reason).To(Equal(steps.ReasonRollingEtcd))
		Expect(outcome.Message).To(ContainSubstring("caches may lead to the relay for"))
		Expect(outcome.RequeueAfter).To(BeNumerically("~", 45*time.Second, time.Second))
		expectUntouched()

		slices := &discoveryv1.EndpointSliceList{}
		Expect(deps.SeedClientSet.Client().List(ctx, slices)).To(Succeed())
		Expect(slices.Items).To(HaveLen(2))
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				Expect(*endpoint.Hostname).To(Equal(naming.SourceClientHost))
			}
		}
	})

	It("should be over when all members have restarted, whatever etcd-druid reports", func() {
		setUp(func() *druidcorev1alpha1.Etcd { return &druidcorev1alpha1.Etcd{} }, steps.Source)
		for _, etcdRole := range naming.EtcdRoles {
			statefulSet := &appsv1.StatefulSet{ObjectMeta: meta(naming.EtcdName(etcdRole))}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet)).
				To(Succeed())
			statefulSet.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32)
			Expect(deps.SeedClientSet.Client().Update(ctx, statefulSet)).To(Succeed())
		}
		Expect(restart().Message).To(Equal("The members of the etcds run with their ordinary specification"))
	})

	It("should accompany a restart that has begun to its end, whatever speaks against beginning one", func() {
		setUp(func() *druidcorev1alpha1.Etcd {
			return &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Annotations: suspended}}
		}, steps.Source)
		m.Shoot.Annotations[steps.AnnotationPauseBefore] = steps.Last().String()
		outcome := restart()
		Expect(outcome.Finished()).To(BeTrue())
		Expect(outcome.Message).To(Equal(
			"The members of the etcds have been restarted with their ordinary specification"))
		Expect(etcd().Annotations).To(BeEmpty(), "it belongs to etcd-druid again")
	})

	It("should end its attempt with the agent, in the middle of a restart", func() {
		setUp(func() *druidcorev1alpha1.Etcd {
			return &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Annotations: suspended}}
		}, steps.Source)
		clusters["main"].SetUp("seed-b-etcd-main-2", false)
		ended, end := context.WithCancel(ctx)
		end()
		_, err := destination.RestartEtcds(ended, deps, m)
		Expect(err).To(HaveOccurred())
		Expect(etcd().Annotations).To(HaveKey(druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation))
	})

	It("should be asked for by the step of the source, after the controllers", func() {
		cleanUp, _ := steps.Get(gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup)
		var titles []string
		for _, work := range cleanUp.Work {
			if work.By == steps.Destination && work.Asks == steps.ReasonSourceControllersStopped {
				first, _, _ := strings.Cut(work.Title, ",")
				titles = append(titles, first)
			}
		}
		Expect(titles).To(Equal([]string{"Start the controllers in the destination",
			"Begin to give the etcds their ordinary specification"}))
	})
})
