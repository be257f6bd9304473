// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNotStarted is the status error of a member that was added and has not started yet.
var ErrNotStarted = errors.New("it has not started")

// Inspection is one look at a whole cluster.
type Inspection struct {
	// ClusterID identifies the cluster.
	ClusterID uint64
	// Members are the members in the order of the member list.
	Members []MemberInspection
	// Alarms are the alarms that are raised.
	Alarms []Alarm
	// AlarmsError tells why they could not be listed.
	AlarmsError error
}

// MemberInspection is what was found out about one member.
type MemberInspection struct {
	Member
	// Status is what it says about itself.
	Status Status
	// StatusError tells why it could not be asked.
	StatusError error
	// Defragmenting reports that it is being defragmented.
	Defragmenting bool
	// DefragmentingError tells why that is not known. It is ErrNoMetric if the member publishes nothing about it.
	DefragmentingError error
}

// Leader returns the leader that most of the members follow, or zero.
func (i Inspection) Leader() uint64 {
	votes := map[uint64]int{}
	for _, member := range i.Members {
		if member.Status.LeaderID != 0 {
			votes[member.Status.LeaderID]++
		}
	}
	var leader uint64
	for _, member := range i.Members {
		if votes[member.ID] > votes[leader] {
			leader = member.ID
		}
	}
	return leader
}

// Problem tells why the member is not a healthy one of the cluster with that leader; empty if it is. Alarms are no
// problem of a member: every one reports those of all.
func (m MemberInspection) Problem(clusterID, leader uint64) string {
	switch {
	case m.StatusError != nil:
		return m.StatusError.Error()
	case m.Status.ClusterID != clusterID:
		return fmt.Sprintf("it belongs to cluster %x, not to %x", m.Status.ClusterID, clusterID)
	case m.Status.LeaderID == 0:
		return "it knows no leader"
	case m.Status.LeaderID != leader:
		return fmt.Sprintf("it follows %x, the others follow %x", m.Status.LeaderID, leader)
	}
	return ""
}

// Inspect lists the members and asks each of them, in parallel and for at most the given time each. It fails only if
// there is no member list: either the cluster has no quorum, or it cannot be reached.
func Inspect(ctx context.Context, cluster Reader, timeout time.Duration) (Inspection, error) {
	list, err := cluster.List(ctx)
	if err != nil {
		return Inspection{}, fmt.Errorf("failed to inspect the etcd cluster: %w", err)
	}

	out := Inspection{ClusterID: list.ClusterID, Members: make([]MemberInspection, len(list.Members))}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var group sync.WaitGroup
	group.Go(func() { out.Alarms, out.AlarmsError = cluster.Alarms(ctx) })
	for i, member := range list.Members {
		view := &out.Members[i]
		view.Member = member
		if member.Name == "" {
			view.StatusError, view.DefragmentingError = ErrNotStarted, ErrNotStarted
			continue
		}
		group.Go(func() { view.Status, view.StatusError = cluster.Status(ctx, member) })
		group.Go(func() { view.Defragmenting, view.DefragmentingError = cluster.Defragmenting(ctx, member) })
	}
	group.Wait()
	return out, nil
}
