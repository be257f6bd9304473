// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("A kube-apiserver that clients are to be led to", func() {
	var (
		deps *destination.Deps

		deployment = func(available corev1.ConditionStatus) *appsv1.Deployment {
			return &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-apiserver"},
				Status: appsv1.DeploymentStatus{
					Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: available}},
				},
			}
		}
		setUp = func(objects ...client.Object) {
			deps = newDeps(objects...)
			deps.Timings.PollInterval = time.Millisecond
			deps.Timings.RolloutTimeout = 100 * time.Millisecond
		}
		left = func() []string {
			GinkgoHelper()
			pods := &corev1.PodList{}
			Expect(deps.SeedClientSet.Client().List(ctx, pods)).To(Succeed())
			names := []string{}
			for _, p := range pods.Items {
				names = append(names, p.Name)
			}
			return names
		}
	)

	It("should be asked whether it serves, and left alone", func() {
		setUp(deployment(corev1.ConditionTrue), kubeAPIServerPod("one", "kubernetes", 5, crashLooping()))
		deps.Timings.RolloutTimeout = patience.Eventually
		asked := 0
		Expect(destination.UntilServing(ctx, deps, newMigration(), func(context.Context) error {
			if asked++; asked == 1 {
				return errors.New("not yet")
			}
			return nil
		})).To(Succeed())
		Expect(asked).To(Equal(2))
		Expect(left()).To(ConsistOf("one"))
	})

	It("should not wait for restarts that take longer than a new pod", func() {
		setUp(deployment(corev1.ConditionFalse),
			kubeAPIServerPod("long", "kubernetes", 3, crashLooping()),
			kubeAPIServerPod("short", "kubernetes", 2, crashLooping()),
			kubeAPIServerPod("running", "kubernetes", 9,
				corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			kubeAPIServerPod("creating", "kubernetes", 9,
				corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}),
			kubeAPIServerPod("other", "other", 9, crashLooping()),
		)
		asked := false
		Expect(destination.UntilServing(ctx, deps, newMigration(), func(context.Context) error {
			asked = true
			return nil
		})).To(MatchError(ContainSubstring("the kube-apiserver of the destination is not ready for clients")))
		Expect(asked).To(BeFalse())
		Expect(left()).To(ConsistOf("short", "running", "creating", "other"))
	})

	It("should be required to exist", func() {
		setUp()
		Expect(destination.UntilServing(ctx, deps, newMigration(), func(context.Context) error { return nil })).
			To(MatchError(ContainSubstring("not ready for clients")))
	})

	It("should be required to serve", func() {
		setUp(deployment(corev1.ConditionTrue))
		Expect(destination.UntilServing(ctx, deps,
			newMigration(), func(context.Context) error { return errors.New("no route") })).
			To(MatchError(ContainSubstring("no route")))
	})
})
