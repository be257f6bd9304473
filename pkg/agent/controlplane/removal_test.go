// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/test/patience"
)

// of returns access to the control planes in a seed.
func of(seed kubernetes.Interface, timeout time.Duration) *controlplane.ControlPlane {
	GinkgoHelper()
	c, err := controlplane.New(controlplane.Options{
		SeedClientSet: seed, Timings: flows.Timings{PollInterval: time.Millisecond, RolloutTimeout: timeout},
		Clock:         clock.RealClock{},
		DestroyTunnel: func(context.Context, *migration.Migration) error { return errors.New("there is no tunnel") },
	})
	Expect(err).NotTo(HaveOccurred())
	return c
}

var _ = Describe("Removal", func() {
	const namespace = "shoot--demo--live"
	var (
		ctx       = context.Background()
		newClient = func(objects ...client.Object) client.WithWatch {
			return fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
		}
	)

	// looked calls a function when somebody has looked.
	looked := func(c client.WithWatch, then func()) client.Client {
		return interceptor.NewClient(c, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				options ...client.GetOption) error {
				defer then()
				return c.Get(ctx, key, object, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				defer then()
				return c.List(ctx, list, options...)
			},
		})
	}

	It("should wait for etcds that still exist", func() {
		timeoutCtx, expire := patience.Expiring(ctx)
		etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: namespace}}
		Expect(controlplane.WaitUntilEtcdsGone(timeoutCtx, looked(newClient(etcd), expire), namespace,
			time.Millisecond)).To(MatchError(ContainSubstring("1 etcds in namespace")))
		Expect(controlplane.WaitUntilEtcdsGone(ctx, newClient(), namespace, time.Millisecond)).To(Succeed())
	})

	// removing waits until the namespace with the objects is gone, and gives up when it has looked at the pods, if it
	// does that, or else at the namespace.
	removing := func(objects ...client.Object) (client.Client, error) {
		GinkgoHelper()
		timeoutCtx, expire := patience.Expiring(ctx)
		c := newClient(objects...)
		seed := interceptor.NewClient(c, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				options ...client.GetOption) error {
				err := c.Get(ctx, key, object, options...)
				if object.GetDeletionTimestamp() == nil {
					expire()
				}
				return err
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				defer expire()
				return c.List(ctx, list, options...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object,
				options ...client.DeleteOption) error {
				asked := (&client.DeleteOptions{}).ApplyOptions(options)
				Expect(asked.GracePeriodSeconds).To(HaveValue(BeZero()), "nobody is there who would end it")
				Expect(asked.Preconditions).NotTo(BeNil())
				// By force it goes, whatever keeps it.
				object.SetFinalizers(nil)
				return c.Update(ctx, object)
			},
		})
		return c, of(fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build(),
			patience.Eventually).WaitUntilNamespaceGone(timeoutCtx, namespace)
	}
	terminating := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Finalizers: []string{"test/kept"},
			DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	}
	ending := func(name string, due time.Duration, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-of-it",
			Finalizers: []string{"test/kubelet"}, DeletionTimestamp: &metav1.Time{Time: time.Now().Add(-due)}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}

	It("should wait for a namespace that still exists", func() {
		_, err := removing(terminating())
		Expect(err).To(MatchError(ContainSubstring(namespace + " still exists")))
		_, err = removing()
		Expect(err).NotTo(HaveOccurred())
	})

	It("should remove the pods of a lost node with their namespace, and no others", func() {
		c, err := removing(terminating(), ending("etcd-main-1", time.Minute, corev1.ConditionFalse),
			ending("etcd-main-0", time.Minute, corev1.ConditionTrue),
			ending("etcd-main-2", time.Second, corev1.ConditionFalse))
		Expect(err).To(MatchError(ContainSubstring("still exists")))
		left := &corev1.PodList{}
		Expect(c.List(ctx, left)).To(Succeed())
		Expect(left.Items).To(HaveExactElements(HaveField("Name", "etcd-main-0"), HaveField("Name", "etcd-main-2")))
	})

	It("should not remove pods from a namespace that is not being deleted", func() {
		c, err := removing(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			ending("etcd-main-1", time.Minute, corev1.ConditionFalse))
		Expect(err).To(MatchError(ContainSubstring("still exists")))
		left := &corev1.PodList{}
		Expect(c.List(ctx, left)).To(Succeed())
		Expect(left.Items).To(HaveLen(1))
	})
})
