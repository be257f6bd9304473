// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/apis/utils/timewindow"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
)

// Enabled reports whether the shoot's etcd is backed up in this seed.
func Enabled(b *botanist.Botanist) bool {
	return v1beta1helper.GetBackupConfigForShoot(b.Shoot.GetInfo(), b.GetSeed()) != nil
}

// ConfigureEtcd gives the main etcd the backup configuration that the gardenlet gives it while it deploys both
// etcds. The botanist offers that only together with a deployment, which in the restore phase begins with one member
// that would restore a backup.
func ConfigureEtcd(ctx context.Context, b *botanist.Botanist) error {
	backup := v1beta1helper.GetBackupConfigForShoot(b.Shoot.GetInfo(), b.GetSeed())
	if backup == nil {
		return nil
	}

	key := client.ObjectKey{Namespace: b.Shoot.ControlPlaneNamespace, Name: v1beta1constants.BackupSecretName}
	secret := &corev1.Secret{}
	if err := b.SeedClientSet.APIReader().Get(ctx, key, secret); err != nil {
		return fmt.Errorf("failed to read backup secret %s: %w", key, err)
	}

	shoot := b.Shoot.GetInfo()
	schedule, err := timewindow.DetermineSchedule("%d %d * * *", shoot.Spec.Maintenance.TimeWindow.Begin,
		shoot.Spec.Maintenance.TimeWindow.End,
		shoot.Status.UID, shoot.CreationTimestamp, timewindow.RandomizeWithinFirstHourOfTimeWindow)
	if err != nil {
		return fmt.Errorf("failed to determine the schedule of full snapshots: %w", err)
	}

	var (
		leaderElection *gardenletconfigv1alpha1.ETCDBackupLeaderElection
		retention      *metav1.Duration
	)
	if b.Config != nil && b.Config.ETCDConfig != nil {
		leaderElection = b.Config.ETCDConfig.BackupLeaderElection
		retention = b.Config.ETCDConfig.DeltaSnapshotRetentionPeriod
	}

	b.Shoot.Components.ControlPlane.EtcdMain.SetBackupConfig(&etcd.BackupConfig{
		Provider:                     backup.Provider,
		SecretRefName:                v1beta1constants.BackupSecretName,
		Prefix:                       b.Shoot.BackupEntryName,
		Container:                    string(secret.Data[v1beta1constants.DataKeyBackupBucketName]),
		FullSnapshotSchedule:         schedule,
		LeaderElection:               leaderElection,
		DeltaSnapshotRetentionPeriod: retention,
	})
	return nil
}

// Snapshot takes a full snapshot of the main etcd into the bucket of the seed that runs its leader. It needs an
// initialized secrets management. Without a backup there is nothing to do.
func Snapshot(ctx context.Context, b *botanist.Botanist) error {
	if !Enabled(b) {
		return nil
	}
	if err := ConfigureEtcd(ctx, b); err != nil {
		return err
	}
	if err := b.SnapshotEtcd(ctx); err != nil {
		return fmt.Errorf("failed to take a full snapshot of the main etcd: %w", err)
	}
	return nil
}
