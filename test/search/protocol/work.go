// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/simulation"
)

// freshLife is how old a sign of life of the source may be when the last members join; as in the destination's agent.
const freshLife = time.Minute

// actions returns what the roles do, in the seeds of the model. Each attempt does one part of the work and says that
// there is more; the attempt that finds nothing to do is the one that finishes the step.
func (t *turn) actions() map[steps.Role]migration.Actions {
	out := simulation.Both(func(role steps.Role) simulation.Work {
		return simulation.Work{
			Step:   func(step steps.Step) migration.Action { return t.work(t.guarded(t.step(role, step))) },
			Assist: func(step steps.Step) migration.Action { return t.work(t.guarded(t.assist(role, step))) },
			Always: migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
				_, err := t.look()
				return steps.Outcome{}, err
			}),
			Abort:         t.work(map[steps.Role]work{steps.Source: t.restore, steps.Destination: t.withdraw}[role]),
			Abandon:       t.work(t.abandon),
			Clear:         t.work(t.clear),
			AbandonSource: t.work(t.guarded(t.abandonSource)),
		}
	})
	if t.world.model.Alter != nil {
		t.world.model.Alter(&Seeds{turn: t}, out)
	}
	return out
}

// work is one attempt, with what the agent sees of the seeds at its beginning.
type work func(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error)

// work makes an action of the attempt.
func (t *turn) work(attempt work) migration.Action {
	return migration.ActionFunc(func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
		seen, err := t.look()
		if err != nil {
			return steps.Outcome{}, err
		}
		return attempt(ctx, m, seen)
	})
}

// guarded is work that must not be done unless the gate was proved in the same pass.
func (t *turn) guarded(attempt work) work {
	return func(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
		if !t.proved() {
			t.violate("the %s works in step %s although the gate was not proved in this pass", m.Role, m.Step)
		}
		return attempt(ctx, m, seen)
	}
}

// step returns the work of the owner of a step.
func (t *turn) step(role steps.Role, step steps.Step) work {
	if step.Owner != role {
		return nil
	}
	return map[gardencorev1beta1.ConditionType]work{
		gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin:              t.prepareSource,
		gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined:                 t.joinDestination,
		gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer: t.migrateEarly,
		gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady:              t.startKubeAPIServer,
		gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords:                          t.releaseRecords,
		gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete:                      t.moveEtcd,
		gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup:                          t.cleanUp,
		gardencorev1beta1.ShootLiveMigrationMigrationCompleted:                         t.complete,
	}[step.Condition]
}

// assist returns the part of the role in a step of its peer.
func (t *turn) assist(role steps.Role, step steps.Step) work {
	return func(_ context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
		asked := steps.AskedFor(steps.Conditions(m.Shoot), step, role)
		switch asked {
		case steps.ReasonShootStatePersisted:
			if seen.prepared {
				return steps.Done("prepared"), nil
			}
			return steps.Outcome{}, t.do("prepares before its turn", func(v *view) { v.prepared = true })
		case steps.ReasonReadyForSourceMemberRemoval:
			return t.retire(seen)
		case steps.ReasonSourceControllersStopped, steps.ReasonDeletingSourceResources:
			if seen.running[to]&passing == passing {
				return steps.Done("the controllers run"), nil
			}
			return steps.Outcome{}, t.do("starts the controllers", func(v *view) { v.running[to] |= passing })
		}
		return steps.Outcome{}, nil
	}
}

// prepareSource asks the destination to prepare, and does not wait for that, as the real action: an error of that
// report stops nothing. The backup entry is released when the full snapshot is taken.
func (t *turn) prepareSource(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
	if !seen.running[from].has(entry) {
		return steps.Done("prepared"), nil
	}
	_ = m.Report(ctx, steps.ReasonShootStatePersisted, "asked to prepare")
	return more(steps.ReasonPersistingShootState, t.do("takes the full snapshot and releases the backup entry",
		func(v *view) { v.running[from] &^= entry }))
}

// more is the outcome of an attempt that has done a part.
func more(reason steps.Reason, err error) (steps.Outcome, error) {
	if err != nil {
		return steps.Outcome{}, err
	}
	return steps.Waiting(0, reason, "there is more to do"), nil
}

func (t *turn) joinDestination(_ context.Context, _ *migration.Migration, seen view) (steps.Outcome, error) {
	switch {
	case !seen.running[to].has(entry):
		return more(steps.ReasonPreparingDestination, t.do("prepares and takes the backup entry", func(v *view) {
			v.prepared = true
			v.running[to] |= entry
		}))
	case seen.voters[to] < members-1:
		return more(steps.ReasonJoiningEtcdMembers, t.change("joins two members", func(v *view) {
			if v.running[from].has(entry) {
				t.violate("members join before the full snapshot is taken")
			}
			v.running[to] |= etcd
			v.voters[to] = members - 1
		}))
	}
	return steps.Done("joined"), nil
}

func (t *turn) migrateEarly(_ context.Context, _ *migration.Migration, seen view) (steps.Outcome, error) {
	if !seen.running[from].has(early) {
		return steps.Done("migrated"), nil
	}
	return more(steps.ReasonMigratingExtensions, t.do("migrates the early extensions", func(v *view) {
		v.running[from] &^= early
		v.saved = true
	}))
}

func (t *turn) startKubeAPIServer(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
	if steps.ForceShrinkRequested(m.Shoot) {
		if outcome, err := t.moveMembers(ctx, m, seen); err != nil || !outcome.Finished() {
			return outcome, err
		}
	}
	switch {
	case !seen.running[to].has(early):
		if !seen.saved {
			return steps.Outcome{}, errors.New("the ShootState has no state of the early extensions")
		}
		return more(steps.ReasonDeployingKubeAPIServer,
			t.do("restores the early extensions", func(v *view) { v.running[to] |= early }))
	case !seen.running[to].has(serving):
		return more(steps.ReasonDeployingKubeAPIServer,
			t.do("starts the kube-apiserver", func(v *view) { v.running[to] |= serving }))
	}
	return steps.Done("started"), nil
}

func (t *turn) releaseRecords(_ context.Context, _ *migration.Migration, seen view) (steps.Outcome, error) {
	if !seen.running[from].has(records) {
		return steps.Done("released"), nil
	}
	return more(steps.ReasonReleasingDNSRecords,
		t.do("releases the DNS records", func(v *view) { v.running[from] &^= records }))
}

func (t *turn) moveEtcd(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
	// From when the last members were asked for until the source's have left, nothing keeps them waiting.
	if moving := seen.voters[to] == members && seen.voters[from] > 0; !moving {
		if reason, message := m.Obstacle(ctx); reason != "" {
			return steps.Waiting(0, reason, "%s", message), nil
		}
	}
	switch {
	case seen.dns != to:
		return more(steps.ReasonSwitchingDNSRecords, t.do("switches the DNS records", func(v *view) {
			v.running[to] |= records
			v.dns = to
		}))
	case !seen.drained && seen.voters[to] < members:
		if err := m.Report(ctx, steps.ReasonDrainingClients, "asked to drain"); err != nil {
			return steps.Outcome{}, err
		}
		return more(steps.ReasonDrainingClients,
			t.do("remembers that it has asked", func(v *view) { v.drained = true }))
	}
	return t.moveMembers(ctx, m, seen)
}

// moveMembers lets the last members of the destination join, and waits until those of the source are gone.
func (t *turn) moveMembers(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
	if seen.voters[to] == members {
		switch {
		case seen.voters[from] == 0:
			return steps.Done("moved"), nil
		case m.Step.PointOfNoReturn && steps.AbandonSourceRequested(m.Shoot):
			if alive, err := m.PeerAlive(ctx); err != nil || alive == "" {
				return more(steps.ReasonReadyForSourceMemberRemoval, errors.Join(err, t.doWithoutSource()))
			}
		}
		return steps.Waiting(0, steps.ReasonReadyForSourceMemberRemoval, "the source has members"), nil
	}
	if reason, message := m.Obstacle(ctx); reason != "" {
		return steps.Waiting(0, reason, "%s", message), nil
	}
	seenAt, err := m.PeerSeen(ctx)
	switch {
	case err != nil:
		return steps.Waiting(0, steps.ReasonSourceSilent, "%s", err), nil
	case m.Clock.Since(seenAt) > freshLife:
		return steps.Waiting(0, steps.ReasonSourceSilent, "the source gives no sign of life"), nil
	}
	if err := t.change("joins the last member", func(v *view) { v.voters[to] = members }); err != nil {
		return steps.Outcome{}, err
	}
	return more(steps.ReasonReadyForSourceMemberRemoval,
		m.Report(ctx, steps.ReasonReadyForSourceMemberRemoval, "all members have joined"))
}

// retire takes members of the source out of the etcds, the first one and then the others.
func (t *turn) retire(seen view) (steps.Outcome, error) {
	switch {
	case seen.voters[from] == 0:
		return steps.Done("no member is left"), nil
	case seen.voters[to] < members:
		// The rule for the quorum, which is not the subject of this search.
		return steps.Outcome{}, fmt.Errorf("the destination has %d members only", seen.voters[to])
	case seen.voters[from] == members:
		return steps.Outcome{}, t.change("removes its first member", func(v *view) { v.voters[from]-- })
	}
	return steps.Outcome{}, t.change("removes its other members", func(v *view) {
		v.voters[from] = 0
		v.running[from] &^= etcd
	})
}

// cleanUp stops the source, with the stages of the real action: what the peer is asked for is said as soon as it is
// true, and an error of that report stops nothing.
func (t *turn) cleanUp(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
	switch left := seen.running[from]; {
	case left.has(passing | ending):
		if err := m.Report(ctx, steps.ReasonStoppingSourceControlPlane, "stopping"); err != nil {
			return steps.Outcome{}, err
		}
		if err := t.do("stops the controllers", func(v *view) { v.running[from] &^= passing | ending }); err != nil {
			return steps.Outcome{}, err
		}
		_ = m.Report(ctx, steps.ReasonSourceControllersStopped, "stopped")
		return more(steps.ReasonSourceControllersStopped, nil)
	case left.has(serving):
		if err := m.Report(ctx, steps.ReasonSourceControllersStopped, "stopped"); err != nil {
			return steps.Outcome{}, err
		}
		if err := t.do("stops the kube-apiserver", func(v *view) { v.running[from] &^= serving }); err != nil {
			return steps.Outcome{}, err
		}
		_ = m.Report(ctx, steps.ReasonDeletingSourceResources, "deleting")
		return more(steps.ReasonDeletingSourceResources, nil)
	}
	return steps.Done("nothing is left"), nil
}

func (t *turn) complete(_ context.Context, _ *migration.Migration, seen view) (steps.Outcome, error) {
	if wanted := passing | restored; seen.running[to]&wanted != wanted {
		return more(steps.ReasonDeployingControlPlane,
			t.do("starts the other components", func(v *view) { v.running[to] |= wanted }))
	}
	return steps.Done("complete"), nil
}

// withdraw is the destination's part of an abort.
func (t *turn) withdraw(_ context.Context, _ *migration.Migration, seen view) (steps.Outcome, error) {
	if seen.voters[from] < members {
		t.violate("the destination withdraws although members of the source have left")
	}
	switch {
	case seen.voters[to] > 0:
		return more(steps.ReasonAborting, t.change("removes its members", func(v *view) {
			v.voters[to] = 0
			v.running[to] &^= etcd
		}))
	case seen.running[to].has(serving | early):
		return more(steps.ReasonAborting, t.do("stops the kube-apiserver and migrates the early extensions",
			func(v *view) { v.running[to] &^= serving | early }))
	case seen.running[to] != 0 || seen.prepared:
		return more(steps.ReasonAborting, t.do("deletes the rest", func(v *view) {
			v.running[to], v.prepared, v.drained = 0, false, false
		}))
	}
	return steps.Done("nothing is left"), nil
}

// restore is the source's part of an abort.
func (t *turn) restore(_ context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
	switch lacking := all &^ seen.running[from]; {
	case seen.voters[to] > 0:
		return steps.Waiting(0, steps.ReasonWaitingForSourceEtcd, "the etcds are not as before"), nil
	case lacking.has(entry | early):
		return more(steps.ReasonAborting, t.do("takes backup entry and early extensions back",
			func(v *view) {
				v.running[from] |= entry | early
				v.saved = false
			}))
	case lacking.has(records):
		return more(steps.ReasonAborting,
			t.do("deploys the DNS records again", func(v *view) { v.running[from] |= records }))
	case lacking != 0:
		t.violate("the source has lost what an abort does not bring back")
	}
	if !steps.AbortRequested(m.Shoot) {
		t.violate("the source aborts although nobody has requested it")
	}
	return steps.Done("as before"), nil
}

// abandon is the source's part when the destination is lost.
func (t *turn) abandon(_ context.Context, _ *migration.Migration, seen view) (steps.Outcome, error) {
	if seen.voters[from] < members {
		t.violate("the source abandons the destination although members of the source have left")
	}
	if seen.voters[to] == 0 && seen.cut[to] {
		return steps.Done("abandoned"), nil
	}
	return more(steps.ReasonAborting, t.do("removes the destination's members and closes the way", func(v *view) {
		v.voters[to], v.cut[to] = 0, true
	}))
}

// clear is what the destination does when it was abandoned and is back.
func (t *turn) clear(_ context.Context, _ *migration.Migration, seen view) (steps.Outcome, error) {
	if seen.running[to] == 0 && !seen.prepared && !seen.cut[to] {
		return steps.Done("nothing is left"), nil
	}
	return more(steps.ReasonAborting, t.do("deletes what an abandonment has left", func(v *view) {
		v.running[to], v.prepared, v.cut[to], v.drained = 0, false, false, false
	}))
}

// abandonSource is the destination's part when the source is lost.
func (t *turn) abandonSource(ctx context.Context, m *migration.Migration, seen view) (steps.Outcome, error) {
	if seen.cut[from] {
		return steps.Done("abandoned"), nil
	}
	alive, err := m.PeerAlive(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	if alive != "" {
		return steps.Waiting(0, steps.ReasonAbandoningSource, "not abandoned: %s", alive), nil
	}
	return more(steps.ReasonAbandoningSource, t.doWithoutSource())
}

func (t *turn) doWithoutSource() error {
	return t.do("closes the way to the source and removes its members", func(v *view) {
		v.voters[from], v.cut[from] = 0, true
	})
}
