// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/flow"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// abort takes everything of the shoot out of this seed again. The etcd members come first: as long as one of them is in
// the member list it counts for the quorum of the source.
func (d *destination) abort(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if err := d.withdrawMembers(ctx, m); err != nil {
		return steps.Outcome{}, err
	}

	namespace := &corev1.Namespace{}
	found, err := controlplane.Exists(ctx, d.SeedClientSet.APIReader(),
		client.ObjectKey{Name: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)}, namespace)
	if err != nil {
		return steps.Outcome{}, err
	}
	b, err := d.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeMigrate, botanist.StayingIn(m.SourceSeed))
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := flows.Run(ctx, m, steps.ReasonAborting, d.abortGraph(m, b, abortFacts{
		hasBackup:   backups.Enabled(b),
		terminating: !found || namespace.DeletionTimestamp != nil,
	})); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("Nothing of the shoot is left in seed %s", d.SeedName), nil
}

func (d *destination) withdrawMembers(ctx context.Context, m *migration.Migration) error {
	ctx, cancel := context.WithTimeout(ctx, d.Timings.JoinTimeout)
	defer cancel()

	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.Withdraw(ctx, m.Report); err != nil {
		return fmt.Errorf("failed to take the etcd members of the destination out of the clusters: %w", err)
	}
	return nil
}

// abortFacts are what the flow of an abort depends on.
type abortFacts struct {
	hasBackup bool
	// terminating reports whether the shoot's namespace is being deleted or gone: only the garbage collection works
	// on it then.
	terminating bool
}

func (d *destination) abortGraph(m *migration.Migration, b *botanist.Botanist, facts abortFacts) *flow.Graph {
	var (
		g       = flow.NewGraph("abort in the destination")
		timeout = d.Timings.RolloutTimeout

		releaseBackupEntry = g.Add(flow.Task{
			Name: "Releasing the backup entry to the source",
			Fn: flows.Retry(func(ctx context.Context) error {
				return d.returnBackupEntry(ctx, m, b)
			}, timeout),
			SkipIf: !facts.hasBackup,
		})
	)
	d.ControlPlane.AddRemoval(g, controlplane.Removal{
		Migration: m, Botanist: b, Terminating: facts.terminating,
		BeforeNamespace: flow.NewTaskIDs(releaseBackupEntry),
	})
	return g
}

// returnBackupEntry releases the backup entry as the source did: the entry names the other seed, and then the
// gardenlet of this one migrates it. The backups stay where they are.
func (d *destination) returnBackupEntry(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	entry, err := b.Shoot.Components.BackupEntry.Get(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("failed to read backup entry: %w", err)
	}
	if ptr.Deref(entry.Spec.SeedName, "") != m.SourceSeed {
		// Otherwise the gardenlet of the source would carry the request out, on the bucket of this seed.
		if requested, ok := entry.Annotations[v1beta1constants.GardenerOperation]; ok {
			return fmt.Errorf("operation %q of backup entry %s has not been picked up yet", requested, entry.Name)
		}
		if err := b.Shoot.Components.BackupEntry.Migrate(ctx); err != nil {
			return fmt.Errorf("failed to release backup entry %s: %w", entry.Name, err)
		}
	}
	if err := backups.CheckReleased(entry, m.SourceSeed); err != nil {
		return err
	}
	return d.Backups.RemoveMigrated(ctx, entry.Name)
}
