// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/component/garden/backupentry"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
)

var _ = DescribeTable("An abort in the destination and the backup entry",
	func(spec string, status *string, operation gardencorev1beta1.LastOperationType, problem string) {
		deps, m := newDeps(), newMigration()
		entry := &gardencorev1beta1.BackupEntry{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "entry"},
			Spec:       gardencorev1beta1.BackupEntrySpec{BucketName: "bucket-a", SeedName: ptr.To(spec)},
			Status: gardencorev1beta1.BackupEntryStatus{SeedName: status,
				LastOperation: &gardencorev1beta1.LastOperation{
					Type: operation, State: gardencorev1beta1.LastOperationStateSucceeded}},
		}
		Expect(deps.Garden.Create(ctx, entry)).To(Succeed())
		component := backupentry.New(logr.Discard(), deps.Garden, &backupentry.Values{
			Namespace: entry.Namespace, Name: entry.Name, SeedName: ptr.To("seed-a"),
		}, time.Second, time.Second)

		err := destination.ReturnBackupEntry(ctx, deps, m, component)
		if problem == "" {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(MatchError(ContainSubstring(problem)))
		}
		after := &gardencorev1beta1.BackupEntry{}
		Expect(deps.Garden.Get(ctx, client.ObjectKeyFromObject(entry), after)).To(Succeed())
		if ptr.Deref(status, "") == "seed-a" {
			Expect(after.ResourceVersion).To(Equal(entry.ResourceVersion),
				"the gardenlet of the source, which migrates it, would otherwise take it for its own again half-way")
			return
		}
		Expect(after.Spec.SeedName).To(HaveValue(Equal("seed-a")))
	},
	Entry("that the source has not released yet", "seed-a", ptr.To("seed-a"),
		gardencorev1beta1.LastOperationTypeReconcile, ""),
	Entry("that the source is releasing", "seed-b", ptr.To("seed-a"), gardencorev1beta1.LastOperationTypeReconcile, ""),
	Entry("that the source has released, and nobody has taken", "seed-b", nil,
		gardencorev1beta1.LastOperationTypeMigrate, ""),
	Entry("that the destination has", "seed-b", ptr.To("seed-b"), gardencorev1beta1.LastOperationTypeRestore,
		"is still managed by seed seed-b"),
)
