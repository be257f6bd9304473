// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/utils/ptr"
)

// CheckBackupEntry reports whether the backup entry is managed by the seed, stored in the seed's bucket and in order.
func CheckBackupEntry(entry *gardencorev1beta1.BackupEntry, seedName, bucketName string) error {
	if name := ptr.Deref(entry.Spec.SeedName, ""); name != seedName {
		return fmt.Errorf("backup entry %s is assigned to seed %q", entry.Name, name)
	}
	if name := ptr.Deref(entry.Status.SeedName, ""); name != seedName {
		return fmt.Errorf("backup entry %s is managed by seed %q", entry.Name, name)
	}
	if entry.Spec.BucketName != bucketName {
		return fmt.Errorf("backup entry %s is stored in bucket %s", entry.Name, entry.Spec.BucketName)
	}
	if operation, ok := entry.Annotations[v1beta1constants.GardenerOperation]; ok {
		return fmt.Errorf("operation %q of backup entry %s has not been picked up yet", operation, entry.Name)
	}
	if entry.Status.ObservedGeneration != entry.Generation {
		return fmt.Errorf("backup entry %s has not been observed in its latest generation", entry.Name)
	}
	lastOperation := entry.Status.LastOperation
	if lastOperation == nil || lastOperation.Type == gardencorev1beta1.LastOperationTypeMigrate ||
		lastOperation.State != gardencorev1beta1.LastOperationStateSucceeded {
		return fmt.Errorf("backup entry %s has not been restored yet", entry.Name)
	}
	return nil
}
