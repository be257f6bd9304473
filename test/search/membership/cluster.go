// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// agentCluster is an etcd as an agent in one of the seeds reaches it. It refuses what the fake refuses, and what
// cannot be reached. What an agent changes is judged here, by the whole state of the cluster.
type agentCluster struct {
	etcdclient.Cluster

	world *World
	side  side
	etcd  etcd
}

// current is the cluster now: a world that changes it copies it first.
func (c *agentCluster) current() etcdclient.Cluster {
	return c.world.clusters[c.etcd].From(c.side.zone())
}

// List implements etcdclient.Cluster.
func (c *agentCluster) List(ctx context.Context) (etcdclient.Membership, error) {
	return c.current().List(ctx)
}

// ListOf implements etcdclient.Cluster.
func (c *agentCluster) ListOf(ctx context.Context, member etcdclient.Member) (etcdclient.Membership, error) {
	if err := c.locate(member); err != nil {
		return etcdclient.Membership{}, err
	}
	return c.current().ListOf(ctx, member)
}

// Status implements etcdclient.Cluster.
func (c *agentCluster) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	err := c.locate(member)
	var status etcdclient.Status
	if err == nil {
		status, err = c.current().Status(ctx, member)
	}
	if err != nil && c.world.model.Broken.Blind {
		return c.world.invented(c.etcd, member), nil
	}
	return status, err
}

// locate is what the locator of package joint says of a member: one of the own seed is not asked without a pod, or
// while its pod is being deleted.
func (c *agentCluster) locate(member etcdclient.Member) error {
	for ordinal := range members {
		p := place{c.etcd, c.side, ordinal}
		if m := c.world.at(p); p.memberName() == member.Name && (!m.exists || m.deleting) {
			return fmt.Errorf("pod %s is not there or is being deleted", p.podName())
		}
	}
	return nil
}

// invented is a status that hides that the member does not answer.
func (w *World) invented(e etcd, member etcdclient.Member) etcdclient.Status {
	out := etcdclient.Status{ClusterID: 0xc1, MemberID: member.ID, Learner: member.Learner}
	for _, m := range w.clusters[e].Members() {
		if m.Leader {
			out.LeaderID = m.ID
		}
	}
	return out
}

// Health implements etcdclient.Cluster.
func (c *agentCluster) Health(ctx context.Context) error { return c.current().Health(ctx) }

// Alarms implements etcdclient.Cluster.
func (c *agentCluster) Alarms(ctx context.Context) ([]etcdclient.Alarm, error) {
	return c.current().Alarms(ctx)
}

// Defragmenting implements etcdclient.Cluster.
func (c *agentCluster) Defragmenting(ctx context.Context, member etcdclient.Member) (bool, error) {
	if err := c.locate(member); err != nil {
		return false, err
	}
	return c.current().Defragmenting(ctx, member)
}

// Promote implements etcdclient.Cluster.
func (c *agentCluster) Promote(ctx context.Context, id uint64) error {
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	before := c.world.clusters[c.etcd].Members()
	err := c.world.own(c.etcd).From(c.side.zone()).Promote(ctx, id)
	if err == nil {
		c.world.checkPromotion(c.etcd, before)
	}
	return err
}

// Remove implements etcdclient.Cluster.
func (c *agentCluster) Remove(ctx context.Context, id uint64) error {
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	before := c.world.clusters[c.etcd].Members()
	err := c.world.own(c.etcd).From(c.side.zone()).Remove(ctx, id)
	if err == nil {
		c.world.checkRemoval(c.etcd, before, id)
	}
	return err
}

// UpdatePeerURLs implements etcdclient.Cluster.
func (c *agentCluster) UpdatePeerURLs(context.Context, uint64, []string) error {
	return fmt.Errorf("%w: a change of peer URLs", errUnknown)
}

// MoveLeader implements etcdclient.Cluster.
func (c *agentCluster) MoveLeader(ctx context.Context, leader etcdclient.Member, to uint64) error {
	if err := c.world.agentWrites(); err != nil {
		return err
	}
	return c.world.own(c.etcd).From(c.side.zone()).MoveLeader(ctx, leader, to)
}

// Close implements etcdclient.Cluster.
func (c *agentCluster) Close() error { return nil }

// voters returns how many members vote, and how many of them work and reach the others.
func voters(list []fake.MemberState) (all, working int) {
	for _, m := range list {
		if m.Learner {
			continue
		}
		all++
		if m.Connected {
			working++
		}
	}
	return all, working
}

func byID(list []fake.MemberState, id uint64) (fake.MemberState, bool) {
	for _, m := range list {
		if m.ID == id {
			return m, true
		}
	}
	return fake.MemberState{}, false
}

// checkPromotion judges a promotion by an agent: if the new voter failed at once, there would have to be a quorum.
func (w *World) checkPromotion(e etcd, before []fake.MemberState) {
	if all, working := voters(before); working < quorum.Size(all+1) {
		w.violates("a learner of %s was promoted although %d of then %d voters work without it", e, working, all+1)
	}
}

// checkRemoval judges a removal by an agent.
func (w *World) checkRemoval(e etcd, before []fake.MemberState, id uint64) {
	removed, ok := byID(before, id)
	if !ok || removed.Learner {
		return
	}
	after := w.clusters[e].Members()
	all, working := voters(after)
	switch {
	case removed.Leader:
		w.violates("the leader of %s was removed: %s", e, removed)
	case removed.Connected && !w.stranded(removed):
		w.violates("a member of %s was removed while it works: %s", e, removed)
	case working < quorum.Size(all):
		w.violates("a removal from %s has cost the quorum: %d of %d voters work", e, working, all)
	}
	if p, ok := placeOf(removed.Member); ok && p.side == source {
		if w.aborting() {
			w.violates("an abort has removed a member of the source: %s", removed)
		}
		// retireLost removes one that is lost when two have joined.
		if joined := w.votersOf(e, destination); joined < members-1 {
			w.violates("a member of the source has left %s with %d voters of the destination: %s", e, joined, removed)
		}
	}
}

// stranded reports whether the pod of a member should have ended long ago. Nobody knows then whether its etcd runs, and
// that it may run does no harm (joint, stuckpod.go).
func (w *World) stranded(m fake.MemberState) bool {
	p, ok := placeOf(m.Member)
	return ok && w.at(p).exists && w.at(p).deleting && w.clock.old(w.at(p).due)
}

// votersOf returns how many voters the side has.
func (w *World) votersOf(e etcd, s side) int {
	count := 0
	for _, m := range w.clusters[e].Members() {
		if p, ok := placeOf(m.Member); ok && p.side == s && !m.Learner {
			count++
		}
	}
	return count
}

// checkStop judges the stop of a member by an agent: it counts until it is removed.
func (w *World) checkStop(p place, how string) {
	list := w.clusters[p.etcd].Members()
	all, working := voters(list)
	m, ok := byID(list, w.at(p).volume)
	if !ok || m.Learner || !m.Connected || w.at(p).deleting {
		return
	}
	if working-1 < quorum.Size(all) {
		w.violates("%s of %s stops, because %s, and then %d of %d voters work", p, p.etcd, how, working-1, all)
	}
	if p.side == source && !w.aborting() && w.votersOf(p.etcd, destination) < members {
		w.violates("%s of %s, which works, stops while the destination has %d voters", p, p.etcd,
			w.votersOf(p.etcd, destination))
	}
}
