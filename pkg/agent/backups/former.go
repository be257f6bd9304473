// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// BucketOf returns the name of the bucket in which a seed keeps the backups of its shoots; it is empty if the seed
// keeps none.
func (b *Backups) BucketOf(ctx context.Context, seedName string) (string, error) {
	seed, err := botanist.ReadSeed(ctx, b.options.GardenAPIReader, seedName)
	if err != nil {
		return "", err
	}
	if seed.Spec.Backup == nil {
		return "", nil
	}
	return string(seed.UID), nil
}

// DeleteFormer deletes the shoot's backups in the bucket of a seed that it has left. They go the way that they go in a
// classic migration: through a backup entry of its own that is managed by the agent's seed.
func DeleteFormer(ctx context.Context, b *botanist.Botanist, bucketName string) error {
	if err := openFormer(ctx, b, bucketName); err != nil {
		return err
	}
	return RemoveFormer(ctx, b)
}

// RemoveFormer does the same when CopyFormer has copied them, which has made the entry ready. The gardenlet continues
// with the deletion whether it is waited for or not.
func RemoveFormer(ctx context.Context, b *botanist.Botanist) error {
	if err := b.DestroySourceBackupEntry(ctx); err != nil {
		return fmt.Errorf("failed to delete the backup entry of the former seed's backups: %w", err)
	}
	if err := b.Shoot.Components.SourceBackupEntry.WaitCleanup(ctx); err != nil {
		return fmt.Errorf("failed to wait until the former seed's backups are deleted: %w", err)
	}
	return nil
}

// openFormer gives the agent's seed access to the shoot's backups in the bucket of the seed that it has left: a backup
// entry of its own.
//
// Gardener's SeedRestriction lets a seed create such an entry only while the last operation is a restoration, and only
// before the shoot's own backup entry has got its new bucket. Neither is so in a live migration. Where it refuses, the
// entry is asked for from livecpm-controller-manager, which is not bound to a seed; everything else the seed authorizer
// lets the agent do itself.
func openFormer(ctx context.Context, b *botanist.Botanist, bucketName string) error {
	entry := b.Shoot.Components.SourceBackupEntry
	entry.SetBucketName(bucketName)
	if err := entry.Deploy(ctx); err != nil {
		if apierrors.IsForbidden(err) {
			return errors.Join(
				fmt.Errorf("the backup entry of the former seed's backups is awaited from "+
					"livecpm-controller-manager, because this seed may not create it: %w", err),
				ask(ctx, b),
			)
		}
		return fmt.Errorf("failed to deploy the backup entry of the former seed's backups: %w", err)
	}
	if err := entry.Wait(ctx); err != nil {
		return fmt.Errorf("failed to wait for the backup entry of the former seed's backups: %w", err)
	}
	// Not after a deletion: whoever finds that the entry is gone must not find a request for it.
	return stopAsking(ctx, b)
}

// ask sets the annotation by which livecpm-controller-manager is asked for the backup entry.
func ask(ctx context.Context, b *botanist.Botanist) error {
	return botanist.Annotate(ctx, b, steps.AnnotationDeleteFormerBackups, `"true"`)
}

// stopAsking removes the annotation.
func stopAsking(ctx context.Context, b *botanist.Botanist) error {
	return botanist.Annotate(ctx, b, steps.AnnotationDeleteFormerBackups, "null")
}
