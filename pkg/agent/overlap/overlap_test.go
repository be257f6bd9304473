// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overlap_test

import (
	"context"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("Objects in the shoot", func() {
	var (
		ctx     = context.Background()
		created []string
	)

	meta := func(name, twinName string) metav1.ObjectMeta {
		out := metav1.ObjectMeta{Name: name, Namespace: "kube-system"}
		if twinName != "" {
			out.Labels = map[string]string{overlap.LabelTwin: twinName}
		}
		return out
	}
	newShoot := func(objects ...client.Object) client.Client {
		created = nil
		return fakeclient.NewClientBuilder().WithScheme(kubernetes.ShootScheme).WithObjects(objects...).
			WithInterceptorFuncs(calls.After(func(call calls.Call) {
				if call.Verb == calls.Create {
					created = append(created, call.Key.Name)
				}
			})).Build()
	}
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	pod := func(name, nodeName string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: meta(name, overlap.APIServerProxy), Spec: corev1.PodSpec{NodeName: nodeName},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	daemonSet := func() *appsv1.DaemonSet {
		return &appsv1.DaemonSet{
			ObjectMeta: meta("livecpm-apiserver-proxy", overlap.APIServerProxy),
			Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2},
		}
	}

	It("should be written with the workload last, and updated when they are written again", func() {
		shoot := newShoot()
		objects := []client.Object{
			&appsv1.Deployment{ObjectMeta: meta("livecpm-deployment", overlap.VPN)},
			&corev1.Secret{ObjectMeta: meta("livecpm-secret", overlap.VPN), Immutable: new(true),
				Data: map[string][]byte{"a": []byte("b")}},
			&corev1.ServiceAccount{ObjectMeta: meta("livecpm-account", overlap.VPN)},
		}
		Expect(overlap.Apply(ctx, shoot, objects)).To(Succeed())
		Expect(created).To(Equal([]string{"livecpm-secret", "livecpm-account", "livecpm-deployment"}))

		objects[0].(*appsv1.Deployment).Spec.Replicas = new(int32(3))
		Expect(overlap.Apply(ctx, shoot, objects)).To(Succeed())
		Expect(created).To(HaveLen(3))
		deployment := &appsv1.Deployment{}
		Expect(shoot.Get(ctx, client.ObjectKeyFromObject(objects[0]), deployment)).To(Succeed())
		Expect(*deployment.Spec.Replicas).To(Equal(int32(3)))
	})

	It("should be of kinds that the twin knows, so that a change of Gardener's component is noticed", func() {
		_, err := overlap.Rename(overlap.VPN,
			[]client.Object{&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role"}}})
		Expect(err).To(MatchError(overlap.ErrUnknownKind))
		Expect(err).To(MatchError(ContainSubstring("*v1.ClusterRole role")))
	})

	It("should not be Services", func() {
		Expect(overlap.Rename(overlap.VPN,
			[]client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "service"}}})).To(BeEmpty())
	})

	It("should not take the place of somebody else's", func() {
		shoot := newShoot(&corev1.ServiceAccount{ObjectMeta: meta("livecpm-account", "")})
		Expect(overlap.Apply(ctx, shoot,
			[]client.Object{&corev1.ServiceAccount{ObjectMeta: meta("livecpm-account", overlap.VPN)}})).
			To(MatchError(ContainSubstring("there is another object of that name")))
	})

	It("should be deleted by their label, and no others", func() {
		shoot := newShoot(
			&appsv1.StatefulSet{ObjectMeta: meta("livecpm-vpn-shoot", overlap.VPN)},
			&corev1.Secret{ObjectMeta: meta("livecpm-secret", overlap.VPN)},
			&appsv1.StatefulSet{ObjectMeta: meta("vpn-shoot", "")}, daemonSet(),
		)
		Expect(overlap.Destroy(ctx, shoot, overlap.VPN)).To(Succeed())
		statefulSets, daemonSets, secrets := &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &corev1.SecretList{}
		Expect(shoot.List(ctx, statefulSets)).To(Succeed())
		Expect(shoot.List(ctx, daemonSets)).To(Succeed())
		Expect(shoot.List(ctx, secrets)).To(Succeed())
		Expect(statefulSets.Items).To(HaveLen(1))
		Expect(statefulSets.Items[0].Name).To(Equal("vpn-shoot"))
		Expect(daemonSets.Items).To(HaveLen(1))
		Expect(secrets.Items).To(BeEmpty())
		Expect(overlap.Destroy(ctx, shoot, overlap.VPN)).To(Succeed(), "again")
	})

	It("should be gone with their last pod", func() {
		Expect(overlap.CheckGone(ctx, newShoot(), overlap.APIServerProxy)).To(Succeed())
		Expect(overlap.CheckGone(ctx, newShoot(pod("p", "n", corev1.ConditionTrue)), overlap.APIServerProxy)).
			To(MatchError(ContainSubstring("1 pods")))
	})

	DescribeTable("are on every node", func(text string, objects ...client.Object) {
		err := overlap.CheckOnEveryNode(ctx, newShoot(objects...), overlap.APIServerProxy)
		if text == "" {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(MatchError(ContainSubstring(text)))
		}
	},
		Entry("all", "", daemonSet(), node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue),
			pod("pa", "a", corev1.ConditionTrue), pod("pb", "b", corev1.ConditionTrue)),
		Entry("but not on one that is not ready", "", daemonSet(), node("a", corev1.ConditionTrue),
			node("b", corev1.ConditionUnknown), pod("pa", "a", corev1.ConditionTrue)),
		Entry("no node is ready", "none of the 1 nodes of the shoot is ready", daemonSet(),
			node("b", corev1.ConditionUnknown)),
		Entry("there is no node", "", daemonSet()),
		Entry("one is missing", "not ready on 1 of 2 nodes: b", daemonSet(), node("a", corev1.ConditionTrue),
			node("b", corev1.ConditionTrue), pod("pa", "a", corev1.ConditionTrue)),
		Entry("one is not ready", "not ready on 1 of 1 nodes: a", daemonSet(), node("a", corev1.ConditionTrue),
			pod("pa", "a", corev1.ConditionFalse)),
		Entry("there is none", "has no DaemonSet", node("a", corev1.ConditionTrue)),
		Entry("still rolling", "is being rolled out",
			func() client.Object { d := daemonSet(); d.Status.UpdatedNumberScheduled = 1; return d }(),
			node("a", corev1.ConditionTrue), pod("pa", "a", corev1.ConditionTrue)),
		Entry("no nodes at all", "", daemonSet()),
	)
})
