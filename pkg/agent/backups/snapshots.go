// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration"
)

// defaultDeltaPeriod is how often the gardenlet lets a delta snapshot be saved.
const defaultDeltaPeriod = 5 * time.Minute

// SnapshotsOptions are what Snapshots need. All of them are required.
type SnapshotsOptions struct {
	// Backups reads the agent's own seed.
	Backups *Backups
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Snapshots tells whether the main etcds of shoots are backed up into the bucket of the agent's own seed.
//
// It is the sidecar beside the leader that saves snapshots, into the bucket of its own seed, and renews two leases
// there (etcd-backup-restore v0.44.1). etcd-druid reads them and sets the condition BackupReady of the Etcd beside
// them. So while members of both seeds vote, the Etcd in the seed of the leader says how the shoot is backed up, and
// the other one has every reason to say that nothing is.
type Snapshots struct {
	options SnapshotsOptions

	// since is when something was found to be wrong first, by namespace. A leader that comes to a seed begins with a
	// full snapshot, and etcd-druid knows nothing before the first delta snapshot follows. How long a leader is there
	// is nowhere to be read. What is lost with the process makes the next one tell later.
	lock  sync.Mutex
	since map[string]time.Time
}

// NewSnapshots returns Snapshots.
func NewSnapshots(options SnapshotsOptions) (*Snapshots, error) {
	if err := required.Fields("the look at snapshots", options); err != nil {
		return nil, err
	}
	return &Snapshots{options: options, since: map[string]time.Time{}}, nil
}

// Of does the same as Problem for the shoot of a migration.
func (s *Snapshots) Of(ctx context.Context, m *migration.Migration) (string, error) {
	return s.Problem(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot))
}

// Problem returns why the snapshots of the main etcd in the namespace fail. It is empty if they do not, if the leader
// is in the other seed, if the etcd is not backed up here, and if they have failed for less than two periods of delta
// snapshots. It is the same text as long as the same is wrong.
func (s *Snapshots) Problem(ctx context.Context, namespace string) (string, error) {
	etcd, err := s.options.Backups.readMainEtcd(ctx, namespace)
	if apierrors.IsNotFound(err) {
		s.settled(namespace)
		return "", nil
	} else if err != nil {
		return "", err
	}
	problem := snapshotProblem(etcd, s.options.Clock.Now())
	if problem == "" {
		s.settled(namespace)
		return "", nil
	}
	if s.options.Clock.Since(s.found(namespace)) < 2*deltaPeriod(etcd) {
		return "", nil
	}
	return problem, nil
}

func (s *Snapshots) settled(namespace string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.since, namespace)
}

// found returns when something was found to be wrong first, which may be now.
func (s *Snapshots) found(namespace string) time.Time {
	s.lock.Lock()
	defer s.lock.Unlock()
	if _, known := s.since[namespace]; !known {
		s.since[namespace] = s.options.Clock.Now()
	}
	return s.since[namespace]
}

// Reported returns the condition by which etcd-druid reports the backups of the Etcd; nil if there is none, and if the
// etcd's leader is not one of the members of this Etcd. Its sidecars save nothing then, and the condition says so.
// While members of two seeds vote, the leader is in one of the seeds.
func Reported(etcd *druidcorev1alpha1.Etcd) *druidcorev1alpha1.Condition {
	if !leads(etcd) {
		return nil
	}
	return backupReady(etcd)
}

// leads reports whether the etcd's leader is one of the members of this Etcd, so that it is its sidecars that save
// snapshots.
func leads(etcd *druidcorev1alpha1.Etcd) bool {
	return slices.ContainsFunc(etcd.Status.Members, func(member druidcorev1alpha1.EtcdMemberStatus) bool {
		return ptr.Deref(member.Role, "") == druidcorev1alpha1.EtcdRoleLeader &&
			member.Status == druidcorev1alpha1.EtcdMemberStatusReady
	})
}

// snapshotProblem returns what is wrong with the snapshots now, empty if nothing is, or if it is not this etcd whose
// sidecars save them.
func snapshotProblem(etcd *druidcorev1alpha1.Etcd, now time.Time) string {
	store := etcd.Spec.Backup.Store
	if store == nil || ptr.Deref(store.Provider, "") == "" || !leads(etcd) {
		return ""
	}
	key := client.ObjectKeyFromObject(etcd)
	condition := backupReady(etcd)
	switch {
	case condition == nil:
		return fmt.Sprintf("etcd-druid does not tell whether Etcd %s is backed up", key)
	case condition.Status != druidcorev1alpha1.ConditionTrue:
		return fmt.Sprintf("%s of Etcd %s is %s since %s: %s", condition.Type, key, condition.Status,
			condition.LastTransitionTime.UTC().Format(time.RFC3339), condition.Message)
	case now.Sub(condition.LastUpdateTime.Time) > 2*deltaPeriod(etcd):
		return fmt.Sprintf("etcd-druid has not looked at the snapshots of Etcd %s since %s", key,
			condition.LastUpdateTime.UTC().Format(time.RFC3339))
	}
	return ""
}

func deltaPeriod(etcd *druidcorev1alpha1.Etcd) time.Duration {
	if period := etcd.Spec.Backup.DeltaSnapshotPeriod; period != nil && period.Duration > 0 {
		return period.Duration
	}
	return defaultDeltaPeriod
}
