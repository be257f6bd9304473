// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"sync"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// prepare makes the source ready for members of the destination. The etcd of the source is only looked at and backed
// up, and its leadership may move from one member to another; neither its member list nor its pods are changed. The
// destination's members become known to its configuration, which is only read when a member starts. The DNS records
// get a shorter TTL.
func (s *source) prepare(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	b, err := s.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeMigrate)
	if err != nil {
		return steps.Outcome{}, err
	}
	if !b.Shoot.IsWorkerless && !s.PermitsWorkers {
		return steps.Outcome{},
			fmt.Errorf("failed to prepare shoot %s/%s: it has workers, which the agent's configuration does not "+
				"permit (controllers.liveMigration.workers)", m.Shoot.Namespace, m.Shoot.Name)
	}

	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	// Before anything is set up, and again at the end: the destination relies on it.
	if err := etcds.CheckSource(ctx); err != nil {
		return steps.Waiting(s.Timings.PollInterval, steps.ReasonWaitingForSourceEtcd,
			"The etcds of the source are not ready: %s", err), nil
	}
	stage := &preparationStage{migration: m, reason: steps.ReasonPersistingShootState}
	facts := prepareFacts{hasBackup: backups.Enabled(b), asksAhead: s.mayAskAhead(ctx, m)}
	if err := flows.RunReporting(ctx, m, s.prepareGraph(m, b, stage, facts), stage.report); err != nil {
		return steps.Outcome{}, err
	}
	if err := etcds.CheckSource(ctx); err != nil {
		return steps.Waiting(s.Timings.PollInterval, steps.ReasonWaitingForSourceEtcd,
			"The etcds of the source are not ready: %s", err), nil
	}
	return steps.Done("The ShootState is persisted, the etcds are healthy and backed up, the exposure is ready, "+
		"and the backup entry is released to seed %s", m.DestinationSeed), nil
}

// prepareFacts are what the flow of the preparation depends on.
type prepareFacts struct {
	hasBackup bool
	// asksAhead reports whether the destination is asked to prepare as soon as it finds all in the ShootState.
	asksAhead bool
}

// mayAskAhead reports whether the destination understands that it is asked to prepare before its turn. If that could
// not be found out, it is not asked: it then prepares when its turn comes, which only takes longer.
func (s *source) mayAskAhead(ctx context.Context, m *migration.Migration) bool {
	theirs, err := flows.PublishedProtocols(ctx, s.GardenAPIReader, m.DestinationSeed)
	if err != nil {
		m.Log.Error(err, "The destination prepares only after this step")
		return false
	}
	common, ok := steps.OwnProtocols().Common(theirs)
	return ok && common >= steps.ProtocolAhead
}

// preparationStage is how far the preparation has come: which reason its progress is reported with.
type preparationStage struct {
	migration *migration.Migration
	// mu keeps a report that has begun before the request from being written after it.
	mu     sync.Mutex
	reason steps.Reason
}

// report publishes the message with the present reason.
func (p *preparationStage) report(ctx context.Context, message string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.migration.Report(ctx, p.reason, message)
}

// askAhead asks the destination to prepare from now on. If that fails, the next report of progress asks it; the
// preparation here does not wait for the garden.
func (p *preparationStage) askAhead(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = steps.ReasonShootStatePersisted
	if err := p.migration.Report(ctx, p.reason, "The ShootState is persisted, and the destination prepares while the "+
		"full snapshot is taken"); err != nil {
		p.migration.Log.Error(err, "Failed to ask the destination to prepare; the next report of progress will")
	}
}

func (s *source) prepareGraph(
	m *migration.Migration, b *botanist.Botanist, stage *preparationStage, facts prepareFacts,
) *flow.Graph {
	var (
		g       = flow.NewGraph("preparation of the source")
		timeout = s.Timings.RolloutTimeout

		// The secrets are those of the gardenlet; this only makes them known to the components below.
		initializeSecrets = g.Add(flow.Task{
			Name: "Initializing secrets management",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.InitializeSecretsManagement(ctx)
			}, timeout),
		})
		deployExposure = g.Add(flow.Task{
			Name: "Deploying the exposure between the seeds",
			Fn: flows.Retry(func(ctx context.Context) error {
				return s.Tunnel.Deploy(ctx, m, b)
			}, timeout),
			Dependencies: flow.NewTaskIDs(initializeSecrets),
		})
		_ = g.Add(flow.Task{
			Name: "Waiting until the exposure is ready",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return s.Tunnel.Wait(ctx, m, b)
			}).Timeout(timeout),
			Dependencies: flow.NewTaskIDs(deployExposure),
		})
		// The exposure has created the CA of the relay, which the destination finds in the ShootState.
		persistState = g.Add(flow.Task{
			Name: "Persisting the ShootState",
			Fn: flows.Retry(func(ctx context.Context) error {
				return s.ShootStates.Replace(ctx, m.Shoot)
			}, timeout),
			Dependencies: flow.NewTaskIDs(deployExposure),
		})
		// From here on the destination finds all that it needs before members join. They wait for the end of this step:
		// the shoot is restored from the full snapshot if anything goes wrong with them.
		_ = g.Add(flow.Task{
			Name: "Asking the destination to prepare meanwhile",
			Fn: func(ctx context.Context) error {
				stage.askAhead(ctx)
				return nil
			},
			SkipIf:       !facts.asksAhead,
			Dependencies: flow.NewTaskIDs(persistState),
		})
		_ = g.Add(flow.Task{
			Name: "Shortening the TTL of the DNS records",
			Fn:   func(ctx context.Context) error { s.shortenTTL(ctx, m); return nil },
		})
		_ = g.Add(flow.Task{
			Name: "Adding the members of the destination to the initial cluster of the etcds",
			Fn: flows.Retry(func(ctx context.Context) error {
				return s.widenInitialCluster(ctx, m)
			}, timeout),
			// An only member gets to know the other one right before that joins; see releaseDNSRecords.
			SkipIf: steps.WithGap(m.Shoot),
		})
	)
	if facts.hasBackup {
		s.addBackup(g, m, b, preparation{secrets: initializeSecrets, state: persistState})
	}
	return g
}

// preparation is what the release of the backup entry waits for.
type preparation struct {
	secrets flow.TaskID
	state   flow.TaskID
}

// addBackup adds a full snapshot, and the release of the backup entry after it. The extension controller releases its
// BackupEntry in this seed but leaves the backup secret in the shoot's namespace, so the source continues writing to
// its own bucket while it has the leader.
func (s *source) addBackup(g *flow.Graph, m *migration.Migration, b *botanist.Botanist, done preparation) {
	timeout := s.Timings.RolloutTimeout
	snapshot := g.Add(flow.Task{
		Name: "Taking a full snapshot of the main etcd",
		Fn: flows.Retry(func(ctx context.Context) error {
			return backups.Snapshot(ctx, b)
		}, timeout),
		Dependencies: flow.NewTaskIDs(done.secrets),
	})
	releaseBackupEntry := g.Add(flow.Task{
		Name: "Releasing the backup entry to the destination",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.Shoot.Components.BackupEntry.Migrate(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(done.state, snapshot),
	})
	_ = g.Add(flow.Task{
		Name: "Waiting until the backup entry is released",
		Fn: flow.TaskFn(func(ctx context.Context) error {
			return retry.Until(ctx, s.Timings.PollInterval, func(ctx context.Context) (bool, error) {
				entry, err := b.Shoot.Components.BackupEntry.Get(ctx)
				if err != nil {
					return retry.MinorError(fmt.Errorf("failed to read backup entry: %w", err))
				}
				if err := backups.CheckReleased(entry, m.DestinationSeed); err != nil {
					return retry.MinorError(err)
				}
				if err := s.Backups.RemoveMigrated(ctx, entry.Name); err != nil {
					return retry.MinorError(err)
				}
				return retry.Ok()
			})
		}).Timeout(timeout),
		Dependencies: flow.NewTaskIDs(releaseBackupEntry),
	})
}
