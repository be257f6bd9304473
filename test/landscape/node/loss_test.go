// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/test/landscape/node"
)

var _ = Describe("the claims of a lost node", func() {
	const protection = druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation

	var (
		etcd  *druidcorev1alpha1.Etcd
		claim *corev1.PersistentVolumeClaim
		ref   *corev1.ObjectReference
	)

	BeforeEach(func() {
		etcd = &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--a--b", Name: "etcd-main"}}
		claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--a--b",
			Name: "main-etcd-etcd-main-1", UID: "u", Labels: map[string]string{
				druidcorev1alpha1.LabelPartOfKey: "etcd-main"}}}
		ref = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	})

	// The client refuses to delete claims of an Etcd that does not permit it, as etcd-druid's admission does: by its
	// cache, which is one request behind.
	protected := func(objects ...client.Object) client.Client {
		scheme := runtime.NewScheme()
		Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		Expect(druidcorev1alpha1.AddToScheme(scheme)).To(Succeed())
		known := false
		builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
		return builder.WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object,
				options ...client.DeleteOption) error {
				parent := &druidcorev1alpha1.Etcd{}
				name := object.GetLabels()[druidcorev1alpha1.LabelPartOfKey]
				if name != "" {
					if err := c.Get(ctx, client.ObjectKey{Namespace: object.GetNamespace(), Name: name},
						parent); apierrors.IsNotFound(err) {
						return c.Delete(ctx, object, options...)
					} else if err != nil {
						return err
					}
					knew := known
					known = metav1.HasAnnotation(parent.ObjectMeta, protection)
					if !known || !knew {
						return errors.New("changes are disallowed at the moment")
					}
				}
				return c.Delete(ctx, object, options...)
			}}).Build()
	}

	DescribeTable("should go although etcd-druid protects them, and leave the Etcd as it was",
		func(ctx context.Context, annotations map[string]string) {
			etcd.Annotations = annotations
			c := protected(etcd, claim)
			Expect(node.DeleteClaim(ctx, c, ref)).To(Succeed())
			Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(claim), claim))).To(BeTrue())
			Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			Expect(etcd.Annotations).To(HaveLen(len(annotations)))
			for key, value := range annotations {
				Expect(etcd.Annotations).To(HaveKeyWithValue(key, value))
			}
		},
		Entry("", nil),
		Entry("with an annotation that somebody else has set", map[string]string{protection: "true"}),
	)

	It("should go if no Etcd owns them, and be gone already", func(ctx context.Context) {
		claim.Labels = nil
		c := protected(claim)
		Expect(node.DeleteClaim(ctx, c, ref)).To(Succeed())
		Expect(node.DeleteClaim(ctx, c, ref)).To(Succeed())
	})

	It("should go if their Etcd is no more", func(ctx context.Context) {
		Expect(node.DeleteClaim(ctx, protected(claim), ref)).To(Succeed())
	})
})
