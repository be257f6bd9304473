// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// memberTimeout bounds each call to etcd.
const memberTimeout = 5 * time.Second

// member implements Member by etcd's client.
type member struct {
	client *clientv3.Client
	pod    string
}

func (m *member) Status(ctx context.Context) (id, leader uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	response, err := m.client.Status(ctx, m.client.Endpoints()[0])
	if err != nil {
		return 0, 0, fmt.Errorf("failed to get the status of etcd in pod %s: %w", m.pod, err)
	}
	return response.Header.GetMemberId(), response.Leader, nil
}

func (m *member) Voters(ctx context.Context) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	list, err := m.client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to list the members of etcd through pod %s: %w", m.pod, err)
	}
	var ids []uint64
	for _, member := range list.Members {
		if !member.IsLearner {
			ids = append(ids, member.ID)
		}
	}
	return ids, nil
}

// RaiseNoSpace asks for the alarm that a member raises when its database has reached its quota. etcd's client has no
// call for that, its API has.
func (m *member) RaiseNoSpace(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	if _, err := etcdserverpb.NewMaintenanceClient(m.client.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action:   etcdserverpb.AlarmRequest_ACTIVATE,
		MemberID: id,
		Alarm:    etcdserverpb.AlarmType_NOSPACE,
	}); err != nil {
		return fmt.Errorf("failed to raise alarm NOSPACE for etcd member %x: %w", id, err)
	}
	return nil
}

func (m *member) NoSpace(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	response, err := m.client.AlarmList(ctx)
	if err != nil {
		return false, fmt.Errorf("failed to list the alarms of etcd through pod %s: %w", m.pod, err)
	}
	for _, alarm := range response.Alarms {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true, nil
		}
	}
	return false, nil
}

func (m *member) Disarm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	// An empty alarm stands for all of them.
	if _, err := m.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("failed to disarm etcd through pod %s: %w", m.pod, err)
	}
	return nil
}

func (m *member) Close() error { return m.client.Close() }
