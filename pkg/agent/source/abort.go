// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/utils/flow"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// abort makes the source what it was before the migration. Nothing of the shoot is left in the destination, or the
// destination was abandoned and has nothing to say any more. Of the control plane here only extensions and DNSRecords
// may have been touched.
func (s *source) abort(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.RemoveDestination(ctx); err != nil {
		return steps.Waiting(s.Timings.PollInterval, steps.ReasonWaitingForSourceEtcd,
			"The etcds are not yet as they were before the migration: %s", err), nil
	}

	keepsShootState, err := s.ShootStates.Kept(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	all := steps.Conditions(m.Shoot)
	if err := s.takeExtensionsBack(ctx, m); err != nil {
		return steps.Outcome{}, err
	}
	// Backup entry and DNSRecords are restored, although nothing else is.
	b, err := s.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeRestore, botanist.StayingIn(m.SourceSeed))
	if err != nil {
		return steps.Outcome{}, err
	}
	facts := abortFacts{hasBackup: backups.Enabled(b), keepsShootState: keepsShootState, undone: undoneOf(all),
		workers: !b.Shoot.IsWorkerless}
	lacking, err := s.lacksDNSRecords(ctx, m, b)
	if err != nil {
		return steps.Outcome{}, err
	}
	facts.undone.dnsRecords = facts.undone.dnsRecords || lacking
	// Its members may have led the cluster for a moment, and its sidecars written backups. In a seed that is lost they
	// stay: what cannot be reached must not keep the source from being whole.
	if facts.hasBackup && !steps.Abandoned(all) && steps.Begun(all, steps.AbortOf(steps.Destination)) {
		if facts.formerBucket, err = s.Backups.BucketOf(ctx, m.DestinationSeed); err != nil {
			return steps.Outcome{}, err
		}
	}
	if err := flows.Run(ctx, m, steps.ReasonAborting, s.abortGraph(m, b, facts)); err != nil {
		return steps.Outcome{}, err
	}
	if _, left := m.Shoot.Annotations[steps.AnnotationLeftBehind]; left {
		return steps.Done("The control plane runs in seed %s as before. Seed %s was abandoned and may have something "+
			"of the shoot (annotation %s)", m.SourceSeed, m.DestinationSeed, steps.AnnotationLeftBehind), nil
	}
	return steps.Done("The control plane runs in seed %s as before, and nothing is left in seed %s", m.SourceSeed,
		m.DestinationSeed), nil
}

// abortFacts are what the flow of an abort depends on.
type abortFacts struct {
	hasBackup       bool
	keepsShootState bool
	// formerBucket is the bucket of the destination's seed if there may be backups in it.
	formerBucket string
	// undone are the steps to undo.
	undone undone
	// workers reports whether the shoot has workers.
	workers bool
}

func (s *source) abortGraph(m *migration.Migration, b *botanist.Botanist, facts abortFacts) *flow.Graph {
	var (
		g       = flow.NewGraph("abort in the source")
		timeout = s.Timings.RolloutTimeout

		takeBackupEntry = g.Add(flow.Task{
			Name: "Taking the backup entry back",
			Fn: flows.Retry(func(ctx context.Context) error {
				return s.takeBackupEntryBack(ctx, b)
			}, timeout),
			SkipIf: !facts.hasBackup,
		})
		deleteBackups = g.Add(flow.Task{
			Name: "Deleting the backups in the bucket of the destination",
			Fn: flows.Retry(func(ctx context.Context) error {
				return backups.DeleteFormer(ctx, b, facts.formerBucket)
			}, timeout),
			SkipIf:       facts.formerBucket == "",
			Dependencies: flow.NewTaskIDs(takeBackupEntry),
		})
		narrow = g.Add(flow.Task{
			Name: "Removing the members of the destination from the initial cluster of the etcds",
			Fn: flows.Retry(func(ctx context.Context) error {
				etcds := s.Etcds.Open(m)
				defer func() { _ = etcds.Close() }()
				return errors.Join(etcds.NarrowInitialCluster(ctx), etcds.ReleaseBudgets(ctx))
			}, timeout),
		})
		// The other one takes the protection of the objects away for a moment.
		_ = g.Add(flow.Task{
			Name: "Letting etcd-druid manage the etcds again",
			Fn: flows.Retry(func(ctx context.Context) error {
				etcds := s.Etcds.Open(m)
				defer func() { _ = etcds.Close() }()
				return etcds.ReleaseRollout(ctx)
			}, timeout),
			SkipIf:       !facts.undone.dnsRecords,
			Dependencies: flow.NewTaskIDs(narrow),
		})
		wayBack         = s.addWayBack(g, m, b, facts)
		destroyExposure = g.Add(flow.Task{
			Name: "Removing the exposure between the seeds",
			Fn: func(ctx context.Context) error {
				return s.Tunnel.Destroy(ctx, m)
			},
		})
		// Its timestamp lies ahead as long as a migration may last: without this, the gardenlet would not back the
		// state up for that time.
		_ = g.Add(flow.Task{
			Name: "Renewing the ShootState",
			Fn: flows.Retry(func(ctx context.Context) error {
				if !facts.keepsShootState {
					return s.ShootStates.Delete(ctx, m.Shoot)
				}
				return s.ShootStates.Renew(ctx, m.Shoot)
			}, timeout),
			Dependencies: flow.NewTaskIDs(deleteBackups, destroyExposure, wayBack),
		})
	)
	return g
}

// takeBackupEntryBack assigns the backup entry to this seed and its bucket again, after its release has come to its
// end.
func (s *source) takeBackupEntryBack(ctx context.Context, b *botanist.Botanist) error {
	if err := s.Backups.CheckHere(ctx, b); err == nil {
		return nil
	}
	entry, err := b.Shoot.Components.BackupEntry.Get(ctx)
	if err != nil {
		return fmt.Errorf("failed to read backup entry: %w", err)
	}
	if backups.Unmanaged(entry) {
		if err := b.DeployBackupEntry(ctx); err != nil {
			return fmt.Errorf("failed to take backup entry %s back: %w", entry.Name, err)
		}
	}
	err = s.Backups.CheckHere(ctx, b)
	if err != nil && steps.Abandoned(steps.Conditions(b.Shoot.GetInfo())) &&
		ptr.Deref(entry.Status.SeedName, "") != s.SeedName {
		return fmt.Errorf("%w; that the abandoned seed lets it go is awaited from livecpm-controller-manager", err)
	}
	return err
}
