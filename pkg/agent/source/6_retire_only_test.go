// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/source"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// atOnce is a clock on which waits are over at once.
type atOnce struct{ *testclock.FakeClock }

func (c *atOnce) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	over := make(chan time.Time, 1)
	over <- c.Now()
	return over
}

var _ = Describe("Taking an only member of each etcd away", func() {
	var (
		ctx      = context.Background()
		began    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		deps     *source.Deps
		m        *migration.Migration
		clusters map[string]*fake.Cluster
		reports  []steps.Reason
	)

	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	gone := func(name string) bool {
		GinkgoHelper()
		err := deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Pod{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return apierrors.IsNotFound(err)
	}
	// led reports whether the client service leads through the relay to the destination.
	led := func(etcdRole string) bool {
		GinkgoHelper()
		err := deps.SeedClientSet.Client().Get(ctx, client.ObjectKey{Namespace: namespace,
			Name: naming.ClientServiceName(etcdRole) + "-livecpm-relay"}, &discoveryv1.EndpointSlice{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err == nil
	}

	BeforeEach(func() {
		objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			&appsv1.Deployment{ObjectMeta: meta("kube-apiserver")},
			&extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			&appsv1.StatefulSet{ObjectMeta: meta("livecpm-relay")},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "livecpm-relay-0",
				Labels: map[string]string{"app": "livecpm-relay"}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.9", Conditions: []corev1.PodCondition{
					{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}}}}
		clusters = map[string]*fake.Cluster{}
		for _, etcdRole := range naming.EtcdRoles {
			clusters[etcdRole] = fake.New(
				func(string) string { return naming.PlainPeerURL(steps.Destination, namespace, etcdRole) },
				naming.MemberName("seed-b", etcdRole, 0))
			objects = append(objects, &druidcorev1alpha1.Etcd{ObjectMeta: meta(naming.EtcdName(etcdRole))},
				&appsv1.StatefulSet{ObjectMeta: meta(naming.EtcdName(etcdRole)),
					Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1))}},
				&corev1.Pod{ObjectMeta: meta(naming.PodName(etcdRole, 0))})
		}
		deps = newDeps(objects...)
		deps.Timings.DrainTimeout = 5 * time.Minute
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			return clusters[etcdRole], nil
		}
		reports = nil
		m = &migration.Migration{
			Log: logr.Discard(), Clock: &atOnce{testclock.NewFakeClock(began)}, Role: steps.Source,
			SourceSeed: "seed-a", DestinationSeed: "seed-b",
			Shoot: &gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{steps.AnnotationWithGap: "true"}},
				Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace,
					LiveMigration: &gardencorev1beta1.LiveMigration{
						Conditions: []gardencorev1beta1.Condition{{
							Type:               gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
							Status:             gardencorev1beta1.ConditionTrue,
							LastTransitionTime: metav1.NewTime(began)}}}}},
			Report: func(_ context.Context, reason steps.Reason, _ string) error {
				reports = append(reports, reason)
				return nil
			},
		}
	})

	It("should be done beside the step of the destination", func() {
		outcome, err := source.RetireMembers(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonReadyForSourceMemberRemoval))
		for _, etcdRole := range naming.EtcdRoles {
			Expect(gone(naming.PodName(etcdRole, 0))).To(BeTrue())
			Expect(led(etcdRole)).To(BeTrue())
		}
	})

	It("should be finished in the step that cleans up, and shown as a part of that", func() {
		outcome, err := source.CleanUp(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForClientsToLeave))
		Expect(gone("etcd-main-0")).To(BeTrue())
		Expect(led("main")).To(BeTrue())
		Expect(reports).To(HaveEach(steps.ReasonSourceControllersStopped))
	})

	It("should touch nothing of a shoot whose etcds have three members", func() {
		m.Shoot.Annotations = nil
		outcome, err := source.CleanUp(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Reason).To(Equal(steps.ReasonWaitingForClientsToLeave))
		Expect(gone("etcd-main-0")).To(BeFalse())
		Expect(led("main")).To(BeFalse())
	})

	It("should not lead clients to the destination while a pod is there whose member is in the list", func() {
		clusters["main"] = fake.New(
			func(string) string { return naming.PlainPeerURL(steps.Source, namespace, "main") }, "seed-a-etcd-main-0")
		short, end := context.WithCancel(ctx)
		defer end()
		m.Report = func(context.Context, steps.Reason, string) error { end(); return nil }
		_, err := source.CleanUp(short, deps, m)
		Expect(err).To(MatchError(ContainSubstring("failed to take the etcd members of the source away")))
		Expect(gone("etcd-main-0")).To(BeFalse())
		Expect(led("main")).To(BeFalse())
		Expect(led("events")).To(BeFalse())
	})
})
