// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/controllerutils"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/migration"
)

// away is an etcd cluster that takes its time to answer, on a clock of its own.
type away struct {
	etcdclient.Cluster
	clock *clocktesting.FakeClock
	way   time.Duration
}

func (a away) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	a.clock.Step(a.way)
	return a.Cluster.Status(ctx, member)
}

var _ = Describe("The time that the kube-apiserver has to start", func() {
	var (
		deps *destination.Deps
		m    *migration.Migration

		container = corev1.Container{
			Name: "kube-apiserver",
			LivenessProbe: &corev1.Probe{
				ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/livez"}},
				InitialDelaySeconds: 15, PeriodSeconds: 10, TimeoutSeconds: 15, SuccessThreshold: 1,
				FailureThreshold: 3,
			},
		}
		startup = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/livez"}},
			PeriodSeconds: 5, TimeoutSeconds: 15, SuccessThreshold: 1, FailureThreshold: 60,
		}
		setUp = func(way time.Duration, objects ...client.Object) {
			deps = newDeps(objects...)
			clock := clocktesting.NewFakeClock(time.Now())
			deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				return away{fake.New(func(name string) string {
					return "https://" + name + ".etcd-" + etcdRole + "-peer." + namespace + ".svc:2380"
				}, "seed-a-etcd-"+etcdRole+"-0", "seed-a-etcd-"+etcdRole+"-1", "seed-a-etcd-"+etcdRole+"-2"), clock,
					way}, nil
			}
			m = newMigration()
			m.Clock = clock
		}
		// deploy does what Gardener's component does, which deploys its whole template each time.
		deploy = func(name, image string) *appsv1.Deployment {
			GinkgoHelper()
			chosen, err := destination.SeedForStart(ctx, deps, m)
			Expect(err).NotTo(HaveOccurred())
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			_, err = controllerutils.GetAndCreateOrMergePatch(ctx, chosen.Client(),
				deployment, func() error {
					deployment.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{*container.DeepCopy(),
						{Name: "sidecar", LivenessProbe: container.LivenessProbe.DeepCopy()}}}
					deployment.Spec.Template.Spec.Containers[0].Image = image
					return nil
				})
			Expect(err).NotTo(HaveOccurred())
			deployed := &appsv1.Deployment{}
			Expect(deps.SeedClientSet.Client().Get(ctx, client.ObjectKeyFromObject(deployment), deployed)).To(Succeed())
			return deployed
		}
	)

	It("should be what Gardener gives it, when the leaders are near", func() {
		setUp(0)
		Expect(deploy("kube-apiserver", "one").Spec.Template.Spec.Containers[0].StartupProbe).To(BeNil())
	})

	It("should be longer over a distance, and for nothing else", func() {
		setUp(25 * time.Millisecond)
		containers := deploy("kube-apiserver", "one").Spec.Template.Spec.Containers
		Expect(containers[0].StartupProbe).To(Equal(startup))
		Expect(containers[0].LivenessProbe).To(Equal(container.LivenessProbe))
		Expect(containers[1].StartupProbe).To(BeNil())

		for _, other := range deploy("kube-controller-manager", "one").Spec.Template.Spec.Containers {
			Expect(other.StartupProbe).To(BeNil())
		}
	})

	It("should be longer when the members of etcd answer slowly already", func() {
		setUp(0)
		slow := func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			name := "seed-a-etcd-" + etcdRole + "-0"
			cluster := fake.New(func(string) string {
				return "https://" + name + ".etcd-" + etcdRole + "-peer." + namespace + ".svc:2380"
			}, name)
			cluster.SetTook(name, 1100*time.Millisecond)
			return cluster, nil
		}
		deps.NewCluster = slow
		Expect(deploy("kube-apiserver", "one").Spec.Template.Spec.Containers[0].StartupProbe).To(Equal(startup))
	})

	It("should stay as it was when the step is tried again", func() {
		setUp(25 * time.Millisecond)
		first := deploy("kube-apiserver", "one")
		Expect(deploy("kube-apiserver", "one").Spec).To(Equal(first.Spec))

		setUp(0, &appsv1.Deployment{ObjectMeta: first.ObjectMeta, Spec: first.Spec})
		Expect(deploy("kube-apiserver", "one").Spec).To(Equal(first.Spec), "it would restart without the startup probe")

		again := deploy("kube-apiserver", "two")
		Expect(again.Spec.Template.Spec.Containers[0].Image).To(Equal("two"))
		Expect(again.Spec.Template.Spec.Containers[0].StartupProbe).To(Equal(startup))
	})

	It("should be longer for one that was too slow before", func() {
		setUp(0)
		slow := deploy("kube-apiserver", "one")
		setUp(25*time.Millisecond,
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slow.Name}, Spec: slow.Spec})
		Expect(deploy("kube-apiserver", "one").Spec.Template.Spec.Containers[0].StartupProbe).To(Equal(startup))
	})

	It("should be longer when the kubelet has ended the one of a former attempt", func() {
		setUp(0, kubeAPIServerPod("one", "kubernetes", 0, corev1.ContainerState{}),
			kubeAPIServerPod("two", "other", 1, corev1.ContainerState{}))
		Expect(deploy("kube-apiserver", "one").Spec.Template.Spec.Containers[0].StartupProbe).To(BeNil())
		setUp(0, kubeAPIServerPod("one", "kubernetes", 1, corev1.ContainerState{}))
		Expect(deploy("kube-apiserver", "one").Spec.Template.Spec.Containers[0].StartupProbe).To(Equal(startup))
	})

	Context("while it is waited for", func() {
		restarted := kubeAPIServerPod("one", "kubernetes", 1, corev1.ContainerState{})
		forever := func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("failed to wait: %w", ctx.Err())
		}

		It("should be given up when the kubelet has ended it, so that the next attempt gives it more time", func() {
			setUp(0)
			deploy("kube-apiserver", "one")
			Expect(deps.SeedClientSet.Client().Create(ctx, restarted.DeepCopy())).To(Succeed())
			err := destination.WaitUnlessRestarted(ctx, deps,
				destination.Rollout{Namespace: namespace, Interval: time.Millisecond, Wait: forever})
			Expect(err).To(MatchError(ContainSubstring("the next attempt gives it more time")))
		})

		It("should be waited for to the end when it has more time already", func() {
			setUp(25 * time.Millisecond)
			deploy("kube-apiserver", "one")
			Expect(deps.SeedClientSet.Client().Create(ctx, restarted.DeepCopy())).To(Succeed())
			looks := 0
			err := destination.WaitUnlessRestarted(ctx, deps, destination.Rollout{
				Namespace: namespace, Interval: time.Millisecond,
				Wait: func(ctx context.Context) error {
					Consistently(ctx.Err, 50*time.Millisecond, time.Millisecond).Should(Succeed())
					looks++
					return nil
				},
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(looks).To(Equal(1))
		})

		It("should say why it failed when that was another reason", func() {
			setUp(0)
			deploy("kube-apiserver", "one")
			failure := errors.New("the deployment is stuck")
			Expect(destination.WaitUnlessRestarted(ctx, deps, destination.Rollout{
				Namespace: namespace, Interval: time.Millisecond,
				Wait: func(context.Context) error { return failure },
			})).To(MatchError(failure))
		})
	})

	It("should not be guessed when no leader answers", func() {
		setUp(0)
		deps.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			name := "seed-a-etcd-" + etcdRole + "-0"
			cluster := fake.New(func(string) string {
				return "https://" + name + ".etcd-" + etcdRole + "-peer." + namespace + ".svc:2380"
			}, name)
			cluster.SetUp(name, false)
			return cluster, nil
		}
		_, err := destination.SeedForStart(ctx, deps, m)
		Expect(err).To(MatchError(And(ContainSubstring("the leader of etcd-"), ContainSubstring("how far away"))))
	})
})
