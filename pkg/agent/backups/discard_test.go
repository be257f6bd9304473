// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	"context"
	"errors"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/backups"
)

var _ = Describe("Discard", func() {
	var (
		ctx  = context.Background()
		key  = client.ObjectKey{Name: "shoot--demo--live--uid"}
		seed client.WithWatch
		// raced is what happens right before the deletion.
		raced func(c client.Client) error
	)

	BeforeEach(func() {
		raced = func(client.Client) error { return nil }
		seed = fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).
			WithObjects(&extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: key.Name,
				Finalizers: []string{"extensions.gardener.cloud/local"}}}).
			WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch,
				object client.Object, options ...client.DeleteOption) error {
				if err := raced(c); err != nil {
					return err
				}
				return c.Delete(ctx, object, options...)
			}}).Build()
	})

	discard := func() error {
		GinkgoHelper()
		b, err := backups.New(backups.Options{GardenAPIReader: seed, SeedName: "seed-b",
			SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(seed).WithAPIReader(seed).Build()})
		Expect(err).NotTo(HaveOccurred())
		return b.Discard(ctx, key.Name)
	}

	It("should remove the entry of an abandoned seed without its controller, which would delete the backups", func() {
		Expect(discard()).To(Succeed())
		Expect(apierrors.IsNotFound(seed.Get(ctx, key, &extensionsv1alpha1.BackupEntry{}))).To(BeTrue())
		Expect(discard()).To(Succeed(), "it can be repeated")
	})

	It("should not delete it when the controller has come back meanwhile", func() {
		raced = func(c client.Client) error {
			entry := &extensionsv1alpha1.BackupEntry{}
			if err := c.Get(ctx, key, entry); err != nil {
				return err
			}
			if len(entry.Finalizers) > 0 {
				return errors.New("the finalizer is still there")
			}
			entry.Finalizers = []string{"extensions.gardener.cloud/local"}
			if err := c.Update(ctx, entry); err != nil {
				return err
			}
			return apierrors.NewConflict(extensionsv1alpha1.SchemeGroupVersion.WithResource("backupentries").
				GroupResource(), key.Name, errors.New("the precondition is not met"))
		}
		Expect(discard()).To(MatchError(ContainSubstring("the precondition is not met")))
		entry := &extensionsv1alpha1.BackupEntry{}
		Expect(seed.Get(ctx, key, entry)).To(Succeed())
		Expect(entry.DeletionTimestamp).To(BeNil())
	})
})
