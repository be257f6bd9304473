// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

// ErrNotElected is returned when a member stands for election that a quorum does not vote for.
var ErrNotElected = errors.New("no quorum votes for the member")

// HoldElections lets a cluster without a leader wait for Elect. Otherwise the first voter that may lead does so at
// once.
func (c *Cluster) HoldElections() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	c.elections = true
}

// SetZones tells where each member is, for Cut and From.
func (c *Cluster) SetZones(zone func(etcdclient.Member) string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	c.zone = zone
}

// SetCut breaks all connections between zones, or lets them work again.
func (c *Cluster) SetCut(cut bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	c.cut = cut
	c.elect()
}

// Elect lets a voter win an election. A voter votes only for a log that is not behind its own, as in raft.
func (c *Cluster) Elect(id uint64) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	m := c.byID(id)
	if m == nil || !c.electable(m) {
		return ErrNotElected
	}
	c.lead(m)
	return nil
}

// Electable reports whether the member would win an election now.
func (c *Cluster) Electable(id uint64) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	m := c.byID(id)
	return m != nil && c.electable(m)
}

// lead makes the member the leader. Committed entries that it does not have are lost.
func (c *Cluster) lead(m *member) {
	c.leader = m.ID
	if missing := m.behind; missing > 0 {
		c.lost += missing
		c.index -= missing
		for _, other := range c.members {
			other.behind -= min(other.behind, missing)
		}
	}
}

// Write commits an entry. Members that are not connected, or have not caught up before, do not get it.
func (c *Cluster) Write() error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	if !c.answers() {
		return ErrTimeout
	}
	c.index++
	for _, m := range c.members {
		if !c.connected(m) || !m.synced || m.behind > 0 {
			m.behind++
		}
	}
	return nil
}

// Lost returns how many committed entries are gone because a leader did not have them.
func (c *Cluster) Lost() uint64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.lost
}

// MemberState is what a test may know of a member.
type MemberState struct {
	etcdclient.Member

	// Up says that it runs, and Connected that it also reaches the members that have the quorum.
	Up, Connected bool
	// Synced says that it has caught up as a learner.
	Synced bool
	// Behind is how many committed entries it does not have.
	Behind uint64
	// Leader says that it leads.
	Leader bool
}

// changed notes that the cluster is about to change.
func (c *Cluster) changed() {
	c.version++
	c.states, c.print = nil, ""
}

// Version counts the changes of the cluster and of all that it was cloned from. It is the same as long as nothing has
// changed.
func (c *Cluster) Version() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.version
}

// Members returns the members in the order of the list. Do not change what it returns.
func (c *Cluster) Members() []MemberState {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.states != nil {
		return c.states
	}
	out := make([]MemberState, 0, len(c.members))
	for _, m := range c.members {
		out = append(out, MemberState{Member: m.Member, Up: m.up, Connected: c.connected(m), Synced: m.synced,
			Behind: m.behind, Leader: m.ID == c.leader})
	}
	c.states = out
	return out
}

// Clone returns a copy that has made no changes yet and calls nobody.
func (c *Cluster) Clone() *Cluster {
	c.lock.Lock()
	defer c.lock.Unlock()
	out := &Cluster{id: c.id, nextID: c.nextID, leader: c.leader, index: c.index, removed: slices.Clone(c.removed),
		version: c.version, states: c.states, print: c.print, alarms: slices.Clone(c.alarms), zone: c.zone,
		cut: c.cut, elections: c.elections, lost: c.lost,
		members: make([]*member, 0, len(c.members))}
	for _, m := range c.members {
		copied := *m
		copied.PeerURLs = slices.Clone(m.PeerURLs)
		out.members = append(out.members, &copied)
	}
	return out
}

// Fingerprint describes the state of the cluster without the identifiers of members. Clusters with the same fingerprint
// answer the same and refuse the same, as far as membership and leadership are concerned. Of how far members are behind
// it tells the order only.
func (c *Cluster) Fingerprint() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.print == "" {
		c.print = c.fingerprint()
	}
	return c.print
}

func (c *Cluster) fingerprint() string {
	var distances []uint64
	for _, m := range c.members {
		distances = append(distances, m.behind)
	}
	slices.Sort(distances)
	distances = slices.Compact(append([]uint64{0}, distances...))
	lines := make([]string, 0, len(c.members))
	for _, m := range c.members {
		rank, _ := slices.BinarySearch(distances, m.behind)
		line := fmt.Sprintf("%s %s", m.Name, strings.Join(m.PeerURLs, ","))
		for _, is := range []struct {
			so   bool
			mark byte
		}{{m.Learner, 'l'}, {m.up, 'u'}, {m.synced, 's'}, {m.ID == c.leader, '*'}} {
			if is.so {
				line += string(is.mark)
			}
		}
		lines = append(lines, fmt.Sprintf("%s%d", line, rank))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s cut=%t lost=%d", strings.Join(lines, ";"), c.cut, c.lost)
}

// From returns the cluster as it is reached from a zone: while the zones are cut from each other, only members of that
// zone are asked.
func (c *Cluster) From(zone string) etcdclient.Cluster { return &from{Cluster: c, zone: zone} }

// from is the cluster seen from a zone.
type from struct {
	*Cluster

	zone string
}

// reaches reports whether anybody there can be asked who has the quorum.
func (f *from) reaches() bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	if !f.cut {
		return true
	}
	zone, ok := f.quorumZone()
	return ok && zone == f.zone
}

// isHere reports whether the member can be asked.
func (f *from) isHere(member etcdclient.Member) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	if !f.cut {
		return true
	}
	for _, m := range f.members {
		if m.ID == member.ID || member.ID == 0 && m.Name == member.Name {
			return f.zone == f.zoneOf(m)
		}
	}
	return false
}

// List implements etcdclient.Cluster.
func (f *from) List(ctx context.Context) (etcdclient.Membership, error) {
	if !f.reaches() {
		return etcdclient.Membership{}, ErrTimeout
	}
	return f.Cluster.List(ctx)
}

// ListOf implements etcdclient.Cluster.
func (f *from) ListOf(ctx context.Context, member etcdclient.Member) (etcdclient.Membership, error) {
	if !f.isHere(member) {
		return etcdclient.Membership{}, ErrDown
	}
	return f.Cluster.ListOf(ctx, member)
}

// Status implements etcdclient.Cluster.
func (f *from) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	if !f.isHere(member) {
		return etcdclient.Status{}, ErrDown
	}
	return f.Cluster.Status(ctx, member)
}

// Health implements etcdclient.Cluster.
func (f *from) Health(ctx context.Context) error {
	if !f.reaches() {
		return ErrTimeout
	}
	return f.Cluster.Health(ctx)
}

// Alarms implements etcdclient.Cluster.
func (f *from) Alarms(ctx context.Context) ([]etcdclient.Alarm, error) {
	if !f.reaches() {
		return nil, ErrTimeout
	}
	return f.Cluster.Alarms(ctx)
}

// Defragmenting implements etcdclient.Cluster.
func (f *from) Defragmenting(ctx context.Context, member etcdclient.Member) (bool, error) {
	if !f.isHere(member) {
		return false, ErrDown
	}
	return f.Cluster.Defragmenting(ctx, member)
}

// HashKV implements etcdclient.Cluster.
func (f *from) HashKV(ctx context.Context, member etcdclient.Member, revision int64) (uint32, int64, error) {
	if !f.isHere(member) {
		return 0, 0, ErrDown
	}
	return f.Cluster.HashKV(ctx, member, revision)
}

// Promote implements etcdclient.Cluster.
func (f *from) Promote(ctx context.Context, id uint64) error {
	if !f.reaches() {
		return ErrTimeout
	}
	return f.Cluster.Promote(ctx, id)
}

// Remove implements etcdclient.Cluster.
func (f *from) Remove(ctx context.Context, id uint64) error {
	if !f.reaches() {
		return ErrTimeout
	}
	return f.Cluster.Remove(ctx, id)
}

// UpdatePeerURLs implements etcdclient.Cluster.
func (f *from) UpdatePeerURLs(ctx context.Context, id uint64, peerURLs []string) error {
	if !f.reaches() {
		return ErrTimeout
	}
	return f.Cluster.UpdatePeerURLs(ctx, id, peerURLs)
}

// MoveLeader implements etcdclient.Cluster.
func (f *from) MoveLeader(ctx context.Context, leader etcdclient.Member, to uint64) error {
	if !f.isHere(leader) {
		return ErrDown
	}
	return f.Cluster.MoveLeader(ctx, leader, to)
}

// AddLearner adds a member as Cluster.AddLearner does, if somebody can be asked for it.
func (f *from) AddLearner(peerURLs ...string) (uint64, error) {
	if !f.reaches() {
		return 0, ErrTimeout
	}
	return f.Cluster.AddLearner(peerURLs...)
}

func (c *Cluster) zoneOf(m *member) string {
	if c.zone == nil {
		return ""
	}
	return c.zone(m.Member)
}

// quorumZone returns the zone whose members are a quorum by themselves, while the zones are cut from each other.
func (c *Cluster) quorumZone() (string, bool) {
	var (
		voters int
		up     = map[string]int{}
	)
	for _, m := range c.members {
		if m.Learner {
			continue
		}
		voters++
		if m.up {
			up[c.zoneOf(m)]++
		}
	}
	for zone, members := range up {
		if members >= voters/2+1 {
			return zone, true
		}
	}
	return "", false
}

// connected reports whether the member runs and reaches those that have the quorum, if anybody has.
func (c *Cluster) connected(m *member) bool {
	if !m.up || !c.cut {
		return m.up
	}
	zone, ok := c.quorumZone()
	return ok && c.zoneOf(m) == zone
}

// hasQuorum reports whether enough voters run and reach each other.
func (c *Cluster) hasQuorum() bool {
	up, voters := 0, 0
	for _, m := range c.members {
		if m.Learner {
			continue
		}
		voters++
		if c.connected(m) {
			up++
		}
	}
	return voters > 0 && up >= voters/2+1
}

// answers reports whether the cluster serves changes and linearizable reads.
func (c *Cluster) answers() bool { return c.hasQuorum() && c.leader != 0 }

// electable reports whether a quorum would vote for the member.
func (c *Cluster) electable(m *member) bool {
	if m.Learner || !c.connected(m) {
		return false
	}
	votes, voters := 0, 0
	for _, other := range c.members {
		if other.Learner {
			continue
		}
		voters++
		if c.connected(other) && other.behind >= m.behind {
			votes++
		}
	}
	return votes >= voters/2+1
}

// elect keeps the leader while it is up and has a quorum. Otherwise it takes the first voter that may lead, unless
// elections are held.
func (c *Cluster) elect() {
	if !c.hasQuorum() {
		c.leader = 0
		return
	}
	if m := c.byID(c.leader); m != nil && c.connected(m) && !m.Learner {
		return
	}
	c.leader = 0
	if c.elections {
		return
	}
	for _, m := range c.members {
		if c.electable(m) {
			c.lead(m)
			return
		}
	}
}
