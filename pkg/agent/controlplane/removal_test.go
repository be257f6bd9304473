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

	It("should wait for an object that still exists", func() {
		timeoutCtx, expire := patience.Expiring(ctx)
		key := client.ObjectKey{Name: namespace}
		existing := newClient(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		in := func(c client.Client) *controlplane.ControlPlane {
			return of(fakekubernetes.NewClientSetBuilder().WithAPIReader(c).Build(), patience.Eventually)
		}
		Expect(in(looked(existing, expire)).WaitUntilGone(timeoutCtx, key, &corev1.Namespace{})).
			To(MatchError(ContainSubstring(namespace + " still exists")))
		Expect(in(newClient()).WaitUntilGone(ctx, key, &corev1.Namespace{})).To(Succeed())
	})
})
