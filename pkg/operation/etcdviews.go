// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/pkg/etcdcluster"
	"github.com/livecpm/livecpm/pkg/exposure"
	"github.com/livecpm/livecpm/pkg/jointetcd"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/steps"
)

const (
	// inspectionTimeout bounds the questions to the members of one etcd, which are asked at the same time.
	inspectionTimeout = 5 * time.Second
	// defaultEtcdQuota is what etcd-druid takes when an Etcd sets none.
	defaultEtcdQuota = 8 << 30
)

// EtcdViews looks at the shoot's etcds as the guards need it (preflight.Options.Etcds). In the destination an etcd that does
// not exist yet is left out; the step that creates it looks at the members of the source itself, through the relay.
func (d *Deps) EtcdViews(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
	role, ok := steps.RoleOf(shoot, d.SeedName())
	if !ok {
		return nil, fmt.Errorf("failed to look at the etcds of Shoot %s: seed %s has no part in a migration of it", client.ObjectKeyFromObject(shoot), d.SeedName())
	}
	source, destination, _ := steps.Seeds(shoot)
	joint := d.Joint(&migration.Migration{
		Log: logf.FromContext(ctx), Shoot: shoot, Role: role, SourceSeed: source, DestinationSeed: destination, Clock: d.Clock,
	}, nil)
	defer joint.Close()

	var views []preflight.EtcdView
	for _, etcdRole := range jointetcd.EtcdRoles {
		etcd := &druidcorev1alpha1.Etcd{}
		key := client.ObjectKey{Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(shoot), Name: exposure.EtcdName(etcdRole)}
		if err := d.SeedClientSet.Client().Get(ctx, key, etcd); err != nil {
			if apierrors.IsNotFound(err) && role == steps.Destination {
				continue
			}
			return nil, fmt.Errorf("failed to get Etcd %s: %w", key, err)
		}
		cluster, err := joint.NewCluster(ctx, etcdRole)
		if err != nil {
			return nil, fmt.Errorf("failed to set up a client for %s: %w", key.Name, err)
		}
		inspection, err := etcdcluster.Inspect(ctx, cluster, inspectionTimeout)
		views = append(views, etcdView(etcd, inspection, err))
		_ = cluster.Close()
	}
	return views, nil
}

func etcdView(etcd *druidcorev1alpha1.Etcd, inspection etcdcluster.Inspection, err error) preflight.EtcdView {
	view := preflight.EtcdView{
		Name:                    etcd.Name,
		MemberNamePrefix:        ptr.Deref(etcd.Spec.MemberNamePrefix, ""),
		Quota:                   defaultEtcdQuota,
		DefragmentationSchedule: ptr.Deref(etcd.Spec.Etcd.DefragmentationSchedule, ""),
		Error:                   err,
		AlarmsError:             inspection.AlarmsError,
	}
	if etcd.Spec.Etcd.Quota != nil {
		view.Quota = etcd.Spec.Etcd.Quota.Value()
	}

	names, leader := map[uint64]string{}, agreedLeader(inspection)
	for _, member := range inspection.Members {
		names[member.ID] = member.String()
		view.Members = append(view.Members, preflight.EtcdMemberView{
			Name:        member.String(),
			Learner:     member.Learner,
			Problem:     memberProblem(inspection.ClusterID, leader, member),
			DBSize:      member.Status.DBSize,
			DBSizeInUse: member.Status.DBSizeInUse,
			// Without metrics nothing tells. Then the schedule alone decides.
			Defragmenting: member.DefragmentingError == nil && member.Defragmenting,
		})
	}
	for _, alarm := range inspection.Alarms {
		name, known := names[alarm.MemberID]
		if !known {
			// It stays raised when the member that raised it has left.
			name = fmt.Sprintf("%x", alarm.MemberID)
		}
		view.Alarms = append(view.Alarms, preflight.EtcdAlarm{Member: name, Type: alarm.Type})
	}
	return view
}

// agreedLeader returns the leader that most of the members follow, or zero.
func agreedLeader(inspection etcdcluster.Inspection) uint64 {
	votes := map[uint64]int{}
	for _, member := range inspection.Members {
		if member.Status.LeaderID != 0 {
			votes[member.Status.LeaderID]++
		}
	}
	var leader uint64
	for _, member := range inspection.Members {
		if votes[member.ID] > votes[leader] {
			leader = member.ID
		}
	}
	return leader
}

// memberProblem tells why a member is not healthy. Alarms are no problem of a member: every one reports those of all.
func memberProblem(clusterID, leader uint64, member etcdcluster.MemberInspection) string {
	switch {
	case member.StatusError != nil:
		return member.StatusError.Error()
	case member.Status.ClusterID != clusterID:
		return fmt.Sprintf("it belongs to cluster %x, not to %x", member.Status.ClusterID, clusterID)
	case member.Status.LeaderID == 0:
		return "it knows no leader"
	case member.Status.LeaderID != leader:
		return fmt.Sprintf("it follows %x, the others follow %x", member.Status.LeaderID, leader)
	}
	return ""
}
