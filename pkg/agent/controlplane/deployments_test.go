// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"time"

	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("DeleteDeployments", func() {
	var (
		ctx        = context.Background()
		deployment *appsv1.Deployment
	)

	in := func(c client.Client, timeout time.Duration) *controlplane.ControlPlane {
		return of(fakekubernetes.NewClientSetBuilder().WithClient(c).Build(), timeout)
	}

	BeforeEach(func() {
		deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager", Namespace: "ns"}}
	})

	It("should delete what exists and not mind what does not", func() {
		c := fakeclient.NewClientBuilder().WithObjects(deployment).Build()
		Expect(in(c, patience.Eventually).DeleteDeployments(ctx, "ns", controlplane.Controllers...)).To(Succeed())
		Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment))).To(BeTrue())
	})

	It("should wait for pods that somebody has left without their Deployment, and for no others", func() {
		pod := func(name, owner, hash string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns",
				Labels:          map[string]string{"pod-template-hash": hash},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner}}}}
		}
		others := []client.Object{
			pod("other-5d-x", "kube-controller-manager-other-5d", "5d"),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager", Namespace: "ns"}},
		}
		c := fakeclient.NewClientBuilder().WithObjects(others...).Build()
		Expect(in(c, patience.Eventually).DeleteDeployments(ctx, "ns", deployment.Name)).To(Succeed())

		c = fakeclient.NewClientBuilder().WithObjects(append(others,
			pod("kube-controller-manager-5d-x", "kube-controller-manager-5d", "5d"))...).Build()
		Expect(in(c, 20*time.Millisecond).DeleteDeployments(ctx, "ns", deployment.Name)).
			To(MatchError(ContainSubstring("pod ns/kube-controller-manager-5d-x is still there, although deployment " +
				"kube-controller-manager is gone")))
	})

	It("should not take what cannot be read for gone", func() {
		c := interceptor.NewClient(fakeclient.NewClientBuilder().Build(), interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("forbidden")
			},
		})
		_, err := in(c, patience.Eventually).Left(ctx, "ns", deployment.Name)
		Expect(err).To(MatchError("failed to list the pods in namespace ns: forbidden"))
	})

	DescribeTable("tells what has been started", func(change func(*appsv1.Deployment), started bool) {
		change(deployment)
		c := fakeclient.NewClientBuilder().WithObjects(deployment).Build()
		Expect(in(c, patience.Eventually).Started(ctx, "ns", deployment.Name)).To(Equal(started))
		Expect(in(c, patience.Eventually).Started(ctx, "ns", deployment.Name, "another")).To(BeFalse())
	},
		Entry("an available pod", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, true),
		Entry("no available pod", func(*appsv1.Deployment) {}, false),
		Entry("one that is being deleted", func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 1
			d.DeletionTimestamp, d.Finalizers = &metav1.Time{Time: time.Now()},
				[]string{metav1.FinalizerDeleteDependents}
		}, false),
	)

	It("should wait for pods that are still there", func() {
		deployment.Finalizers = []string{metav1.FinalizerDeleteDependents}
		c := fakeclient.NewClientBuilder().WithObjects(deployment).Build()
		Expect(in(c, 20*time.Millisecond).DeleteDeployments(ctx, "ns", deployment.Name)).
			To(MatchError(ContainSubstring("deployment ns/kube-controller-manager still has pods")))
	})

	Context("with pods on a lost node", func() {
		pod := func(name string, due time.Duration, ready corev1.ConditionStatus) *corev1.Pod {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "it"},
					Finalizers: []string{"test/kubelet"}, DeletionTimestamp: &metav1.Time{Time: time.Now().Add(-due)}},
				Spec:   corev1.PodSpec{NodeName: "lost"},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
			}
		}
		// remove deletes the Deployment with that name, whose pods these are.
		remove := func(name string, pods ...client.Object) error {
			deployment := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
					Finalizers: []string{metav1.FinalizerDeleteDependents}},
				Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "it"}},
				},
			}
			c := fakeclient.NewClientBuilder().WithObjects(append(pods, deployment)...).Build()
			return in(c, 20*time.Millisecond).DeleteDeployments(ctx, "ns", name)
		}

		DescribeTable("does not wait for those that do no harm", func(name string) {
			Expect(remove(name, pod("one", time.Minute, corev1.ConditionFalse))).To(Succeed())
		},
			Entry("kube-controller-manager, whose lease is in the shoot", "kube-controller-manager"),
			Entry("kube-scheduler", "kube-scheduler"),
			Entry("kube-apiserver, which reaches no etcd", "kube-apiserver"),
			Entry("what answers webhooks, and acts nowhere", "livecpm-webhooks"),
		)

		DescribeTable("waits for those that act on machines or in the seed, and names them", func(name string) {
			Expect(remove(name, pod("one", time.Minute, corev1.ConditionFalse))).To(MatchError(And(
				ContainSubstring("deployment ns/"+name+" still has pods: pod one should have ended at "),
				ContainSubstring("node lost"), ContainSubstring("node.kubernetes.io/out-of-service"))))
		},
			Entry("machine-controller-manager", "machine-controller-manager"),
			Entry("cluster-autoscaler", "cluster-autoscaler"),
			Entry("gardener-resource-manager", "gardener-resource-manager"),
			Entry("one that nobody has thought of", "other"),
		)

		It("should name the pods of the resource manager beside those that answer webhooks in its place", func() {
			answering := pod("livecpm-webhooks-5d-x", time.Minute, corev1.ConditionTrue)
			answering.Labels["pod-template-hash"] = "5d"
			answering.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet",
				Name: "livecpm-webhooks-5d", UID: "uid"}}
			Expect(remove("gardener-resource-manager", answering, pod("one", time.Minute, corev1.ConditionFalse))).
				To(MatchError(ContainSubstring("still has pods: pod one should have ended at ")))
		})

		It("should wait for pods that still end in an orderly way", func() {
			Expect(remove("kube-controller-manager", pod("one", time.Minute, corev1.ConditionFalse),
				pod("two", time.Second, corev1.ConditionFalse))).To(MatchError(ContainSubstring("still has pods")))
			Expect(remove("kube-controller-manager", pod("one", time.Minute, corev1.ConditionTrue))).
				To(MatchError(ContainSubstring("still has pods")))
			Expect(remove("kube-controller-manager")).To(MatchError(ContainSubstring("still has pods")))
		})
	})
})
