// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdview makes of an inspected etcd cluster what the guards judge. The agents and kubectl-livecpm both use it.
package etcdview

import (
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/etcdcluster"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// defaultQuota is what etcd-druid takes when an Etcd sets none.
const defaultQuota = 8 << 30

// Of returns what the guards need to know of the etcd that the resource describes. The error is that of the inspection.
func Of(etcd *druidcorev1alpha1.Etcd, inspection etcdcluster.Inspection, err error) preflight.EtcdView {
	view := preflight.EtcdView{
		Name:                    etcd.Name,
		MemberNamePrefix:        ptr.Deref(etcd.Spec.MemberNamePrefix, ""),
		Quota:                   defaultQuota,
		DefragmentationSchedule: ptr.Deref(etcd.Spec.Etcd.DefragmentationSchedule, ""),
		Error:                   err,
		AlarmsError:             inspection.AlarmsError,
	}
	if etcd.Spec.Etcd.Quota != nil {
		view.Quota = etcd.Spec.Etcd.Quota.Value()
	}

	names, leader := map[uint64]string{}, Leader(inspection)
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

// Leader returns the leader that most of the members follow, or zero.
func Leader(inspection etcdcluster.Inspection) uint64 {
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
