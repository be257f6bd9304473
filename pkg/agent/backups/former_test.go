// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	corebackupentry "github.com/gardener/gardener/pkg/component/garden/backupentry"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("DeleteFormer", func() {
	const bucket = "uid-of-seed-a"
	var (
		ctx     = context.Background()
		key     = client.ObjectKey{Namespace: "garden-demo", Name: "source-shoot--demo--live--uid"}
		b       *botanist.Botanist
		garden  client.WithWatch
		created error
		// asked are the values of the annotation at the moments at which it matters.
		askedAtCreation, askedAtDeletion string
		buckets                          []string
	)

	annotation := func() string {
		GinkgoHelper()
		shoot := &gardencorev1beta1.Shoot{}
		Expect(garden.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: "live"}, shoot)).To(Succeed())
		Expect(shoot.Annotations).To(HaveKeyWithValue("other", "kept"))
		return shoot.Annotations[steps.AnnotationDeleteFormerBackups]
	}
	// reconciled does what the gardenlet does.
	reconciled := func(c client.WithWatch) error {
		entry := &gardencorev1beta1.BackupEntry{}
		if err := c.Get(ctx, key, entry); err != nil {
			return err
		}
		delete(entry.Annotations, v1beta1constants.GardenerOperation)
		entry.Status.LastOperation = &gardencorev1beta1.LastOperation{
			Type: gardencorev1beta1.LastOperationTypeReconcile, State: gardencorev1beta1.LastOperationStateSucceeded,
			// In whole seconds, after the moment of the request.
			LastUpdateTime: metav1.NewTime(time.Now().Add(2 * time.Second)),
		}
		return c.Update(ctx, entry)
	}

	BeforeEach(func() {
		created, askedAtCreation, askedAtDeletion, buckets = nil, "", "", nil
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "live",
			Annotations: map[string]string{"other": "kept"}}}
		garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot).Build()
		garden = interceptor.NewClient(garden, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object,
				opts ...client.CreateOption) error {
				if created != nil {
					if err := c.Get(ctx, key, &gardencorev1beta1.BackupEntry{}); apierrors.IsNotFound(err) {
						return created
					}
				}
				if err := c.Create(ctx, object, opts...); err != nil {
					return err
				}
				return reconciled(c)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				opts ...client.PatchOption) error {
				if err := c.Patch(ctx, object, patch, opts...); err != nil {
					return err
				}
				if entry, ok := object.(*gardencorev1beta1.BackupEntry); ok &&
					entry.Annotations[v1beta1constants.GardenerOperation] != "" {
					return reconciled(c)
				}
				return nil
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object,
				opts ...client.DeleteOption) error {
				entry := &gardencorev1beta1.BackupEntry{}
				Expect(c.Get(ctx, client.ObjectKeyFromObject(object), entry)).To(Succeed())
				buckets = append(buckets, entry.Spec.BucketName)
				Expect(entry.Annotations).To(HaveKeyWithValue(gardencorev1beta1.BackupEntryForceDeletion, "true"))
				askedAtDeletion = annotation()
				return c.Delete(ctx, object, opts...)
			},
		})
		b = &botanist.Botanist{Operation: &gardeneroperation.Operation{Logger: logr.Discard(), GardenClient: garden,
			Shoot: &shootpkg.Shoot{Components: &shootpkg.Components{
				SourceBackupEntry: corebackupentry.New(logr.Discard(), garden, &corebackupentry.Values{
					Namespace: key.Namespace, Name: key.Name, SeedName: ptr.To("seed-b"),
				}, time.Millisecond, patience.Eventually),
			}}}}
		b.Shoot.SetInfo(shoot)
	})

	gone := func() {
		GinkgoHelper()
		Expect(apierrors.IsNotFound(garden.Get(ctx, key, &gardencorev1beta1.BackupEntry{}))).To(BeTrue())
		Expect(buckets).To(Equal([]string{bucket}))
		Expect(annotation()).To(BeEmpty())
	}

	It("should delete them through an entry of its own", func() {
		Expect(backups.DeleteFormer(ctx, b, bucket)).To(Succeed())
		gone()
	})

	It("should ask for the entry that it may not create, and do the rest itself", func() {
		created = apierrors.NewForbidden(gardencorev1beta1.Resource("backupentries"), key.Name,
			errors.New("only allowed during shoot Restore operation"))
		Expect(backups.DeleteFormer(ctx, b, bucket)).
			To(MatchError(And(ContainSubstring("awaited from livecpm-controller-manager"),
				ContainSubstring("only allowed during"))))
		askedAtCreation = annotation()
		Expect(askedAtCreation).To(Equal("true"))
		Expect(buckets).To(BeEmpty())

		seedName := "seed-b"
		created = nil
		Expect(garden.Create(ctx, &gardencorev1beta1.BackupEntry{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       gardencorev1beta1.BackupEntrySpec{BucketName: bucket, SeedName: &seedName},
		})).To(Succeed())
		created = errors.New("the entry is there")
		Expect(backups.DeleteFormer(ctx, b, bucket)).To(Succeed())
		Expect(askedAtDeletion).To(BeEmpty(), "who finds the entry gone must not find it asked for")
		gone()
	})

	It("should ask for nothing when the creation fails otherwise", func() {
		created = errors.New("no route")
		Expect(backups.DeleteFormer(ctx, b, bucket)).To(MatchError(ContainSubstring("no route")))
		Expect(annotation()).To(BeEmpty())
	})
})
