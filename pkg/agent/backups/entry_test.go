// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	fakekubernetes "github.com/gardener/gardener/pkg/client/kubernetes/fake"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
)

var _ = DescribeTable("A backup entry is released", func(mutate func(*gardencorev1beta1.BackupEntry), message string) {
	entry := &gardencorev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Name: "entry"},
		Spec:       gardencorev1beta1.BackupEntrySpec{SeedName: ptr.To("seed-b")},
		Status: gardencorev1beta1.BackupEntryStatus{LastOperation: &gardencorev1beta1.LastOperation{
			Type: gardencorev1beta1.LastOperationTypeMigrate, State: gardencorev1beta1.LastOperationStateSucceeded,
		}},
	}
	mutate(entry)
	err := backups.CheckReleased(entry, "seed-b")
	if message == "" {
		Expect(err).NotTo(HaveOccurred())
	} else {
		Expect(err).To(MatchError(ContainSubstring(message)))
	}
},
	Entry("when the source's gardenlet has migrated it", func(*gardencorev1beta1.BackupEntry) {}, ""),
	Entry("when the destination has taken it", func(e *gardencorev1beta1.BackupEntry) {
		e.Status.SeedName = ptr.To("seed-b")
		e.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeRestore
	}, ""),
	Entry("not while the source is its seed", func(e *gardencorev1beta1.BackupEntry) {
		e.Spec.SeedName = ptr.To("seed-a")
	}, "assigned to seed"),
	Entry("not while the source manages it", func(e *gardencorev1beta1.BackupEntry) {
		e.Status.SeedName = ptr.To("seed-a")
	}, "still managed by seed seed-a"),
	Entry("not while the migration runs", func(e *gardencorev1beta1.BackupEntry) {
		e.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
	}, "has not been migrated yet"),
)

var _ = DescribeTable("A backup entry is restored", func(mutate func(*gardencorev1beta1.BackupEntry), message string) {
	entry := &gardencorev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Name: "entry", Generation: 3},
		Spec:       gardencorev1beta1.BackupEntrySpec{SeedName: ptr.To("seed-b"), BucketName: "bucket-b"},
		Status: gardencorev1beta1.BackupEntryStatus{SeedName: ptr.To("seed-b"), ObservedGeneration: 3,
			LastOperation: &gardencorev1beta1.LastOperation{
				Type: gardencorev1beta1.LastOperationTypeRestore, State: gardencorev1beta1.LastOperationStateSucceeded,
			}},
	}
	mutate(entry)
	err := ownership.CheckBackupEntry(entry, "seed-b", "bucket-b")
	if message == "" {
		Expect(err).NotTo(HaveOccurred())
	} else {
		Expect(err).To(MatchError(ContainSubstring(message)))
	}
},
	Entry("when the destination's gardenlet has taken it", func(*gardencorev1beta1.BackupEntry) {}, ""),
	Entry("also after a later reconciliation", func(e *gardencorev1beta1.BackupEntry) {
		e.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeReconcile
	}, ""),
	Entry("not while it is assigned to another seed", func(e *gardencorev1beta1.BackupEntry) {
		e.Spec.SeedName = ptr.To("seed-a")
	}, "assigned to seed"),
	Entry("not while no seed manages it", func(e *gardencorev1beta1.BackupEntry) { e.Status.SeedName = nil },
		`managed by seed ""`),
	Entry("not while it is stored in the source's bucket", func(e *gardencorev1beta1.BackupEntry) {
		e.Spec.BucketName = "bucket-a"
	}, "stored in bucket bucket-a"),
	Entry("not while an operation is requested", func(e *gardencorev1beta1.BackupEntry) {
		e.Annotations = map[string]string{"gardener.cloud/operation": "restore"}
	}, "not been picked up"),
	Entry("not while a change was not observed", func(e *gardencorev1beta1.BackupEntry) { e.Generation = 4 },
		"latest generation"),
	Entry("not by a migration", func(e *gardencorev1beta1.BackupEntry) {
		e.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeMigrate
	}, "has not been restored yet"),
	Entry("not while it runs", func(e *gardencorev1beta1.BackupEntry) {
		e.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
	}, "has not been restored yet"),
)

var _ = Describe("RemoveMigrated", func() {
	const name = "shoot--demo--live--1"
	var (
		ctx   = context.Background()
		entry *extensionsv1alpha1.BackupEntry

		remove = func(
			objects ...client.Object,
		) (err error, gone bool) { //nolint:staticcheck // The error is what is asked about.
			GinkgoHelper()
			c := fakeclient.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(objects...).Build()
			b, err := backups.New(backups.Options{
				GardenAPIReader: c, SeedName: "seed-a",
				SeedClientSet: fakekubernetes.NewClientSetBuilder().WithClient(c).WithAPIReader(c).Build(),
			})
			Expect(err).NotTo(HaveOccurred())
			err = b.RemoveMigrated(ctx, name)
			return err,
				apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Name: name}, &extensionsv1alpha1.BackupEntry{}))
		}
	)

	BeforeEach(func() {
		entry = &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: name}}
		entry.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeMigrate,
			State: gardencorev1beta1.LastOperationStateSucceeded}
	})

	It("should have nothing to do when the gardenlet has removed it", func() {
		err, gone := remove()
		Expect(err).NotTo(HaveOccurred())
		Expect(gone).To(BeTrue())
	})

	It("should remove what the gardenlet has forgotten", func() {
		err, gone := remove(entry)
		Expect(err).NotTo(HaveOccurred())
		Expect(gone).To(BeTrue())
	})

	DescribeTable("waits for the extension controller, whose finalizer keeps the backups", func(mutate func()) {
		mutate()
		err, gone := remove(entry)
		Expect(err).To(MatchError(ContainSubstring("has not been migrated yet")))
		Expect(gone).To(BeFalse())
	},
		Entry("that has done nothing yet", func() { entry.Status.LastOperation = nil }),
		Entry("that has not been asked yet",
			func() { entry.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeReconcile }),
		Entry("that is at it",
			func() { entry.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing }),
		Entry("that has not let go", func() { entry.Finalizers = []string{"extensions.gardener.cloud/backupentry"} }),
	)
})
