// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"errors"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"k8s.io/utils/ptr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

// defaultQuota is what etcd-druid takes when an Etcd sets none.
const defaultQuota = 8 << 30

// EtcdViewOf returns what the guards need to know of the etcd that the resource describes. The error is that of the
// inspection.
func EtcdViewOf(etcd *druidcorev1alpha1.Etcd, inspection etcdclient.Inspection, err error) EtcdView {
	view := EtcdView{
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
		view.Members = append(view.Members, memberViewOf(member, member.Problem(inspection.ClusterID, leader)))
	}
	for _, alarm := range inspection.Alarms {
		name, known := names[alarm.MemberID]
		if !known {
			// It stays raised when the member that raised it has left.
			name = fmt.Sprintf("%x", alarm.MemberID)
		}
		view.Alarms = append(view.Alarms, EtcdAlarm{Member: name, Type: alarm.Type})
	}
	return view
}

// memberViewOf returns what the guards need to know of a member. Whether an unhealthy member is being defragmented is
// not asked of it: its problem holds the step already, wherever a defragmentation would.
func memberViewOf(member etcdclient.MemberInspection, problem string) EtcdMemberView {
	view := EtcdMemberView{
		Name:        member.String(),
		Learner:     member.Learner,
		Version:     member.Status.Version,
		Problem:     problem,
		DBSize:      member.Status.DBSize,
		DBSizeInUse: member.Status.DBSizeInUse,
	}
	switch err := member.DefragmentingError; {
	case err == nil:
		view.Defragmenting = member.Defragmenting
	case errors.Is(err, etcdclient.ErrNoMetric):
		view.NoDefragmentingMetric = true
	case problem == "":
		view.DefragmentingError = err
	}
	return view
}
