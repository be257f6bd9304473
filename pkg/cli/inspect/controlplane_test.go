// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("ControlPlanes", func() {
	var (
		ctx   = context.Background()
		shoot = &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}}

		pod = func(name string, labels map[string]string, owner *metav1.OwnerReference,
			ready corev1.ConditionStatus) *corev1.Pod {
			out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
			if owner != nil {
				out.OwnerReferences = []metav1.OwnerReference{*owner}
			}
			out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
			return out
		}
		etcdOwner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "etcd-main",
			Controller: new(true)}
		builder = func() *fakeclient.ClientBuilder {
			return fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
				&appsv1.Deployment{
					ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-agent",
						Labels: map[string]string{"app": "livecpm", "role": "agent"}},
					Spec:   appsv1.DeploymentSpec{Replicas: new(int32(2))},
					Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
				},
				&druidcorev1alpha1.Etcd{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"},
					Spec: druidcorev1alpha1.EtcdSpec{MemberNamePrefix: new("seed-a"),
						Etcd: druidcorev1alpha1.EtcdConfig{DefragmentationSchedule: new("0 1 * * *")}},
					Status: druidcorev1alpha1.EtcdStatus{Members: []druidcorev1alpha1.EtcdMemberStatus{
						{Name: "seed-a-etcd-main-0", Role: new(druidcorev1alpha1.EtcdRoleLeader),
							Status: druidcorev1alpha1.EtcdMemberStatusReady},
						{Name: "seed-a-etcd-main-1", Status: druidcorev1alpha1.EtcdMemberStatusUnknown},
					}},
				},
				pod("etcd-main-1", nil, etcdOwner, corev1.ConditionFalse),
				pod("etcd-main-0", nil, etcdOwner, corev1.ConditionTrue),
				pod("kube-apiserver-x", map[string]string{"app": "kubernetes", "role": "apiserver"}, nil,
					corev1.ConditionTrue),
				pod("kube-scheduler-x", map[string]string{"app": "kubernetes", "role": "scheduler"}, nil,
					corev1.ConditionTrue),
				&extensionsv1alpha1.DNSRecord{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "live-external"},
					Spec: extensionsv1alpha1.DNSRecordSpec{Name: "api.live.example.org",
						Values: []string{"10.0.0.1"}},
				},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--demo--other", Name: "kube-apiserver-x",
					Labels: map[string]string{"app": "kubernetes", "role": "apiserver"}}},
			)
		}
	)

	It("should see when an agent led for the last time, and the rest without it", func() {
		led := metav1.NewMicroTime(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC))
		lease := func(at *metav1.MicroTime) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: configv1alpha1.DefaultLeaseNamespace,
				Name: configv1alpha1.DefaultLeaseName}, Spec: coordinationv1.LeaseSpec{RenewTime: at}}
		}
		look := func(reader client.Reader) summary.Seed {
			return inspect.ControlPlanes(ctx, access.Seeds{"seed-a": {Reader: reader}}, shoot, "seed-a")[0]
		}
		Expect(look(builder().WithObjects(lease(&led)).Build()).Agent.Led.Time).To(BeTemporally("==", led.Time))
		Expect(look(builder().WithObjects(lease(nil)).Build()).Agent.Led).To(BeNil())

		forbidden := interceptor.NewClient(builder().WithObjects(lease(&led)).Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return apierrors.NewForbidden(coordinationv1.Resource("leases"), "livecpm-agent", errors.New("no"))
			}})
		seen := look(forbidden)
		Expect(seen.Agent.Led).To(BeNil())
		Expect(seen.Etcds).To(HaveLen(1))
	})

	It("should see what is of the shoot, and nothing else", func() {
		seeds := access.Seeds{"seed-a": {Reader: builder().Build()}}
		Expect(inspect.ControlPlanes(ctx, seeds, shoot, "seed-a")).To(Equal([]summary.Seed{{
			Name:  "seed-a",
			Agent: &summary.Agent{Desired: 2, Ready: 1},
			Etcds: []summary.Etcd{{
				Name: "etcd-main", MemberNamePrefix: "seed-a", DefragmentationSchedule: "0 1 * * *",
				Members: []summary.Member{{Name: "seed-a-etcd-main-0", Role: "Leader", Status: "Ready"},
					{Name: "seed-a-etcd-main-1", Status: "Unknown"}},
				Pods: []summary.Pod{{Name: "etcd-main-0", Ready: true}, {Name: "etcd-main-1"}},
			}},
			APIServers: []summary.Pod{{Name: "kube-apiserver-x", Ready: true}},
			Records:    []summary.Record{{Name: "api.live.example.org", Values: []string{"10.0.0.1"}}},
		}}))
	})

	It("should say why it does not see anything", func() {
		broken := builder().WithInterceptorFuncs(calls.Refuse(errors.New("away"), calls.List)).Build()
		seeds := access.Seeds{"seed-b": {Reader: broken}}
		Expect(inspect.ControlPlanes(ctx, seeds, shoot, "seed-a", "", "seed-b")).To(Equal([]summary.Seed{
			{Name: "seed-a", Unknown: "give --seed-kubeconfig seed-a=PATH"},
			{Name: "seed-b", Unknown: "failed to list the Deployments of the agent: away"},
		}))
	})
})
