// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package fake holds an etcd cluster for tests. It has a state and refuses what a real etcd with its strict
// reconfiguration check refuses.
package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

var (
	// ErrTimeout is returned for a change or a linearizable read without a quorum.
	ErrTimeout = errors.New("etcdserver: request timed out")
	// ErrPeerURLExists is returned when a member is added whose peer URL another member has.
	ErrPeerURLExists = errors.New("etcdserver: Peer URLs already exists")
	// ErrTooManyLearners is returned when a second learner is added.
	ErrTooManyLearners = errors.New("etcdserver: too many learner members in cluster")
	// ErrPeerURLs is returned when a member without data starts with an initial cluster that is not the member list.
	ErrPeerURLs = errors.New("error validating peerURLs")
	// ErrDown is returned when a member that is down is asked.
	ErrDown = errors.New("connection refused")
)

type member struct {
	etcdclient.Member
	up            bool
	synced        bool
	dbSize, inUse int64
	defragmenting bool
	hash          uint32
	compacted     int64
	behind        uint64
	took          time.Duration
}

// Cluster is an etcd cluster in memory.
type Cluster struct {
	lock    sync.Mutex
	id      uint64
	nextID  uint64
	leader  uint64
	index   uint64
	members []*member
	removed []uint64
	alarms  []etcdclient.Alarm
	calls   []string
	// zone tells where a member is, and cut says that no connection between two zones works.
	zone func(etcdclient.Member) string
	cut  bool
	// elections says that a cluster without a leader waits for Elect.
	elections bool
	// version counts the changes. states and print are what Members and Fingerprint say, until the next one.
	version int
	states  []MemberState
	print   string
	// lost is how many committed entries a leader did not have when it was elected.
	lost uint64

	// OnRemove, if set, is called after a member was removed.
	OnRemove func(etcdclient.Member)
}

var _ etcdclient.Cluster = (*Cluster)(nil)

// New returns a cluster of started voters with the given names. The peer URLs come from peerURL. The first member
// leads.
func New(peerURL func(name string) string, names ...string) *Cluster {
	c := &Cluster{id: 0xc1, nextID: 0x100}
	for _, name := range names {
		c.members = append(c.members, &member{
			Member: etcdclient.Member{ID: c.newID(), Name: name, PeerURLs: []string{peerURL(name)}},
			up:     true, synced: true,
		})
	}
	c.elect()
	return c
}

func (c *Cluster) newID() uint64 { c.nextID++; return c.nextID }

// AddLearner adds a member that has not started yet, as the backup-restore sidecar of a new member does.
func (c *Cluster) AddLearner(peerURLs ...string) (uint64, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if slices.ContainsFunc(m.PeerURLs, func(url string) bool { return slices.Contains(peerURLs, url) }) {
			return 0, ErrPeerURLExists
		}
	}
	if slices.ContainsFunc(c.members, func(m *member) bool { return m.Learner }) {
		return 0, ErrTooManyLearners
	}
	if !c.answers() {
		return 0, ErrTimeout
	}
	// etcd wants every voter to be connected before it adds anybody.
	if slices.ContainsFunc(c.members, func(m *member) bool { return !m.Learner && !c.connected(m) }) {
		return 0, etcdclient.ErrUnhealthy
	}
	m := &member{Member: etcdclient.Member{ID: c.newID(), PeerURLs: peerURLs, Learner: true}}
	c.members = append(c.members, m)
	return m.ID, nil
}

// Start lets a member come up and publish its name.
func (c *Cluster) Start(id uint64, name string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	if m := c.byID(id); m != nil {
		m.Name, m.up = name, true
		c.elect()
	}
}

// Join lets a member without data come up that was added before, with the initial cluster of its configuration and the
// state "existing". It refuses an initial cluster that does not have as many members as the list, with their peer URLs,
// as etcd does (membership.ValidateClusterAndAssignIDs).
func (c *Cluster) Join(id uint64, name, initialCluster string) error {
	c.lock.Lock()
	c.changed()
	local := map[string][]string{}
	for entry := range strings.SplitSeq(initialCluster, ",") {
		member, url, _ := strings.Cut(entry, "=")
		local[member] = append(local[member], url)
	}
	err := c.validate(local)
	if _, named := local[name]; err == nil && !named {
		err = fmt.Errorf("%w: %s is not in its own initial cluster", ErrPeerURLs, name)
	}
	c.lock.Unlock()
	if err == nil {
		c.Start(id, name)
	}
	return err
}

// validate compares an initial cluster, by name, with the member list.
func (c *Cluster) validate(local map[string][]string) error {
	if len(local) != len(c.members) {
		return fmt.Errorf("%w: member count is unequal: %d of %d", ErrPeerURLs, len(local), len(c.members))
	}
	for _, m := range c.members {
		wanted := slices.Sorted(slices.Values(m.PeerURLs))
		found := false
		for _, urls := range local {
			found = found || slices.Equal(slices.Sorted(slices.Values(urls)), wanted)
		}
		if !found {
			return fmt.Errorf("%w: no match found for existing member %s with %v", ErrPeerURLs, m, m.PeerURLs)
		}
	}
	return nil
}

// CatchUp lets a member reach the leader's log.
func (c *Cluster) CatchUp(id uint64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	if m := c.byID(id); m != nil {
		m.synced, m.behind = true, 0
	}
}

// SetUp lets the member with the name go down or come back.
func (c *Cluster) SetUp(name string, up bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if m.Name == name {
			m.up = up
		}
	}
	c.elect()
}

// RaiseAlarm lets the member with the name raise an alarm.
func (c *Cluster) RaiseAlarm(name, alarm string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if m.Name == name {
			c.alarms = append(c.alarms, etcdclient.Alarm{MemberID: m.ID, Type: alarm})
		}
	}
}

// SetDatabase sets the size of the database file of the member with the name, and what of it is in use.
func (c *Cluster) SetDatabase(name string, size, inUse int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if m.Name == name {
			m.dbSize, m.inUse = size, inUse
		}
	}
}

// SetPeerURLs changes the peer URLs of the member with the name, as its sidecar does.
func (c *Cluster) SetPeerURLs(name string, peerURLs ...string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if m.Name == name {
			m.PeerURLs = peerURLs
		}
	}
}

// SetBehind lets the member with the name have applied so many entries less than the others have.
func (c *Cluster) SetBehind(name string, entries uint64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	c.index = max(c.index, entries)
	for _, m := range c.members {
		if m.Name == name {
			m.behind = entries
		}
	}
}

// Commit lets the cluster commit so many entries. Who is behind stays as far behind.
func (c *Cluster) Commit(entries uint64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	c.index += entries
}

// SetTook sets how long an answer of the member with the name takes. Nobody has to wait for it.
func (c *Cluster) SetTook(name string, took time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if m.Name == name {
			m.took = took
		}
	}
}

// SetDefragmenting lets the defragmentation of the member with the name begin or end.
func (c *Cluster) SetDefragmenting(name string, defragmenting bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if m.Name == name {
			m.defragmenting = defragmenting
		}
	}
}

// Names returns the names of the members.
func (c *Cluster) Names() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	out := make([]string, 0, len(c.members))
	for _, m := range c.members {
		out = append(out, m.Name)
	}
	return out
}

// Leader returns the name of the leader, or nothing.
func (c *Cluster) Leader() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	if m := c.byID(c.leader); m != nil {
		return m.Name
	}
	return ""
}

// Calls returns the changes that were made, in their order.
func (c *Cluster) Calls() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.calls)
}

// List implements etcdclient.Cluster.
func (c *Cluster) List(context.Context) (etcdclient.Membership, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.answers() {
		return etcdclient.Membership{}, ErrTimeout
	}
	return c.membership(), nil
}

// ListOf implements etcdclient.Cluster. Learners refuse it, as those of etcd do.
func (c *Cluster) ListOf(_ context.Context, member etcdclient.Member) (etcdclient.Membership, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, m := range c.members {
		if m.Name == member.Name && m.up && !m.Learner {
			return c.membership(), nil
		}
	}
	return etcdclient.Membership{}, ErrDown
}

func (c *Cluster) membership() etcdclient.Membership {
	out := etcdclient.Membership{ClusterID: c.id}
	for _, m := range c.members {
		copied := m.Member
		copied.PeerURLs = slices.Clone(m.PeerURLs)
		out.Members = append(out.Members, copied)
	}
	return out
}

// Status implements etcdclient.Cluster.
func (c *Cluster) Status(_ context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	m := c.byID(member.ID)
	if m == nil || !m.up {
		return etcdclient.Status{}, ErrDown
	}
	leader := c.leader
	if !c.connected(m) {
		leader = 0
	}
	status := etcdclient.Status{
		ClusterID: c.id, MemberID: m.ID, LeaderID: leader, Learner: m.Learner, Version: "3.5.27",
		DBSize: m.dbSize, DBSizeInUse: m.inUse, RaftIndex: c.index - m.behind, RaftAppliedIndex: c.index - m.behind,
		Took: m.took,
	}
	// Every member reports the alarms of all.
	for _, alarm := range c.alarms {
		status.Errors = append(status.Errors, fmt.Sprintf("memberID:%d alarm:%s ", alarm.MemberID, alarm.Type))
	}
	return status, nil
}

// SetHash sets the hash of a member's key-value store and the revision down to which it has compacted.
func (c *Cluster) SetHash(name string, hash uint32, compacted int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	for _, m := range c.members {
		if m.Name == name {
			m.hash, m.compacted = hash, compacted
		}
	}
}

// HashKV implements etcdclient.Cluster.
func (c *Cluster) HashKV(_ context.Context, member etcdclient.Member, _ int64) (uint32, int64, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	m := c.byID(member.ID)
	if m == nil || !m.up {
		return 0, 0, ErrDown
	}
	return m.hash, m.compacted, nil
}

// Health implements etcdclient.Cluster.
func (c *Cluster) Health(context.Context) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.answers() {
		return ErrTimeout
	}
	return nil
}

// Promote implements etcdclient.Cluster.
func (c *Cluster) Promote(_ context.Context, id uint64) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	m := c.byID(id)
	switch {
	case !c.answers():
		return ErrTimeout
	case m == nil:
		return etcdclient.ErrMemberNotFound
	case !m.Learner:
		return etcdclient.ErrNotLearner
	case !c.connected(m) || !m.synced:
		return etcdclient.ErrLearnerNotReady
	}
	m.Learner = false
	c.calls = append(c.calls, "promote "+m.Name)
	c.elect()
	return nil
}

// Remove implements etcdclient.Cluster.
func (c *Cluster) Remove(_ context.Context, id uint64) error {
	removed, err := c.remove(id)
	if err == nil && c.OnRemove != nil {
		c.OnRemove(removed)
	}
	return err
}

func (c *Cluster) remove(id uint64) (etcdclient.Member, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	m := c.byID(id)
	switch {
	case !c.answers():
		return etcdclient.Member{}, ErrTimeout
	case m == nil || slices.Contains(c.removed, id):
		return etcdclient.Member{}, etcdclient.ErrMemberNotFound
	}
	if !m.Learner {
		started, up, voters := 0, 0, 0
		for _, other := range c.members {
			if other.Learner {
				continue
			}
			voters++
			if other.ID != id && other.Name != "" {
				started++
			}
			if c.connected(other) {
				up++
			}
		}
		// The members that stay must have a quorum among themselves; a member that is down takes nothing away.
		if started < (voters-1)/2+1 || (c.connected(m) && up-1 < 1+(voters-1)/2) {
			return etcdclient.Member{}, etcdclient.ErrUnhealthy
		}
	}
	c.members = slices.DeleteFunc(c.members, func(other *member) bool { return other.ID == id })
	c.removed = append(c.removed, id)
	c.calls = append(c.calls, "remove "+m.String())
	c.elect()
	return m.Member, nil
}

// UpdatePeerURLs implements etcdclient.Cluster. It refuses an address of another member, as etcd does
// (membership.ValidateConfigurationChange).
func (c *Cluster) UpdatePeerURLs(_ context.Context, id uint64, peerURLs []string) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	m := c.byID(id)
	switch {
	case !c.answers():
		return ErrTimeout
	case m == nil:
		return etcdclient.ErrMemberNotFound
	}
	for _, other := range c.members {
		if other != m && slices.ContainsFunc(peerURLs, func(url string) bool {
			return slices.Contains(other.PeerURLs, url)
		}) {
			return ErrPeerURLExists
		}
	}
	m.PeerURLs = slices.Clone(peerURLs)
	c.calls = append(c.calls, fmt.Sprintf("update peer URLs of %s to %v", m, peerURLs))
	return nil
}

// MoveLeader implements etcdclient.Cluster.
func (c *Cluster) MoveLeader(_ context.Context, leader etcdclient.Member, to uint64) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed()
	asked, target := c.byID(leader.ID), c.byID(to)
	switch {
	case asked == nil || !asked.up:
		return ErrDown
	case asked.ID != c.leader:
		return etcdclient.ErrNotLeader
	case target == nil || target.Learner:
		return etcdclient.ErrBadTransferee
	case !c.connected(target):
		return ErrTimeout
	}
	// Raft sends the rest of the log before it moves leadership.
	c.leader, target.behind = to, 0
	c.calls = append(c.calls, fmt.Sprintf("move leadership %s -> %s", asked.Name, target.Name))
	return nil
}

// Alarms implements etcdclient.Cluster.
func (c *Cluster) Alarms(context.Context) ([]etcdclient.Alarm, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.answers() {
		return nil, ErrTimeout
	}
	return slices.Clone(c.alarms), nil
}

// Defragmenting implements etcdclient.Cluster.
func (c *Cluster) Defragmenting(_ context.Context, member etcdclient.Member) (bool, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	m := c.byID(member.ID)
	if m == nil || !m.up {
		return false, ErrDown
	}
	return m.defragmenting, nil
}

// Close implements etcdclient.Cluster.
func (c *Cluster) Close() error { return nil }

func (c *Cluster) byID(id uint64) *member {
	for _, m := range c.members {
		if m.ID == id {
			return m
		}
	}
	return nil
}
