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

	names, leader := map[uint64]string{}, inspection.Leader()
	for _, member := range inspection.Members {
		names[member.ID] = member.String()
		view.Members = append(view.Members, preflight.EtcdMemberView{
			Name:        member.String(),
			Learner:     member.Learner,
			Problem:     member.Problem(inspection.ClusterID, leader),
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
