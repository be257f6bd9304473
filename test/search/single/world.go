// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package single

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/go-logr/logr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/search"
)

const (
	namespace = "shoot--search--single"
	etcdRole  = v1beta1constants.ETCDRoleMain
)

// side is one of the two seeds.
type side int

const (
	source side = iota
	destination
)

func (s side) String() string   { return [...]string{"source", "destination"}[s] }
func (s side) role() steps.Role { return [...]steps.Role{steps.Source, steps.Destination}[s] }
func (s side) seed() string     { return [...]string{"seed-a", "seed-b"}[s] }
func (s side) member() string   { return naming.MemberName(s.seed(), etcdRole, 0) }
func (s side) peerURL() string  { return naming.PlainPeerURL(s.role(), namespace, etcdRole) }
func (s side) entry() string    { return s.member() + "=" + s.peerURL() }
func sideOf(m etcdclient.Member) side {
	if m.Name == destination.member() || m.Name == "" && m.PeerURLs[0] == destination.peerURL() {
		return destination
	}
	return source
}

// Model is what may happen in a world. Each number is how often it may happen in one schedule.
type Model struct {
	// Crashes are ends of etcd that keep its data, Volumes losses of a volume.
	Crashes, Volumes int
	// Cuts are interruptions of all connections between the seeds, Elections changes of the leader that nobody asked
	// for.
	Cuts, Elections int
	// Kills are deaths of an agent after any of its writes.
	Kills int
	// Broken is how this world is not as it should be, to see that the search finds that.
	Broken Broken
}

// Broken is how a world is not as it should be.
type Broken struct {
	// OneName leaves the member of the destination out of the ConfigMap of the source.
	OneName bool
	// LedEarly leads clients of the source to the destination before its pod is gone.
	LedEarly bool
	// Hasty lets the agent of the source take the pod away before its member is removed.
	Hasty bool
}

// member is what is at a side: a pod, and a volume that outlives it.
type member struct {
	exists, deleting bool
	// running says that etcd runs, prepared that the sidecar has added the member and etcd starts next.
	running, prepared bool
	// lease says that the member has been in the cluster.
	lease bool
	// volume is the identity of the member whose data the volume has; zero if it is empty.
	volume uint64
	// wanted is how many replicas the StatefulSet has.
	wanted int32
	// paused says that etcd-druid is suspended.
	paused bool
}

// World is one etcd of a shoot between two seeds. It implements search.World.
type World struct {
	model   Model
	cluster *fake.Cluster
	members [2]member
	cut     bool
	// led says that clients of the source are led to the destination.
	led bool
	// forked says that the member of the source has begun a cluster of its own.
	forked bool
	used   Model

	violation, asks   string
	killAfter, writes int
	killed            bool
}

var _ search.World = (*World)(nil)

// errKilled is what an agent gets that was killed in the middle of a move.
var errKilled = errors.New("the agent was killed")

// New returns a world in which nothing is left to do but to pass the etcd on.
func New(model Model) *World {
	w := &World{model: model, killAfter: -1}
	w.cluster = fake.New(func(string) string { return source.peerURL() }, source.member())
	w.cluster.HoldElections()
	w.cluster.SetZones(func(m etcdclient.Member) string { return sideOf(m).String() })
	w.members[source] = member{exists: true, running: true, lease: true, volume: w.cluster.Members()[0].ID, wanted: 1}
	w.members[destination] = member{wanted: 1}
	w.led = model.Broken.LedEarly
	return w
}

// Clone implements search.World.
func (w *World) Clone() search.World {
	out := *w
	out.cluster = w.cluster.Clone()
	return &out
}

// Key implements search.World.
func (w *World) Key() string {
	used := w.used
	used.Broken = Broken{}
	text := fmt.Sprint(w.cluster.Fingerprint(), w.cut, w.led, w.forked, used)
	for s := range side(2) {
		m := w.members[s]
		data := "none"
		if listed, ok := w.listed(s); ok && m.volume != 0 {
			data = fmt.Sprint(listed.ID == m.volume)
		} else if m.volume != 0 {
			data = "old"
		}
		m.volume = 0
		text += fmt.Sprint("\n", m, data)
	}
	return text
}

// listed returns the entry of the side in the member list, started or not.
func (w *World) listed(s side) (fake.MemberState, bool) {
	for _, m := range w.cluster.Members() {
		if sideOf(m.Member) == s {
			return m, true
		}
	}
	return fake.MemberState{}, false
}

// Violation implements search.World.
func (w *World) Violation() string { return w.violation }

// Asks implements search.World.
func (w *World) Asks() string { return w.asks }

// Goal implements search.World.
func (w *World) Goal() string {
	if _, left := w.listed(source); left || w.members[source].exists || !w.led || len(w.cluster.Members()) != 1 ||
		w.cluster.Leader() != destination.member() {
		return ""
	}
	return "passed on"
}

// violates notes the first thing that must not have happened.
func (w *World) violates(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
	}
}

// Actions implements search.World.
func (w *World) Actions() []search.Action {
	var out []search.Action
	for _, m := range w.moves() {
		out = append(out, m.Action)
	}
	return out
}

// Do implements search.World.
func (w *World) Do(name string) error {
	w.violation, w.asks, w.writes, w.killAfter, w.killed = "", "", 0, -1, false
	for _, m := range w.moves() {
		if m.Name != name {
			continue
		}
		held := w.holders()
		m.do(w)
		w.endRemoved()
		w.judge(held)
		return nil
	}
	return fmt.Errorf("nothing is called %q now", name)
}

// holders are how many voters there are, and how many of them have all that was acknowledged on their volume.
func (w *World) holders() (out struct{ voters, intact int }) {
	for _, m := range w.cluster.Members() {
		if m.Learner {
			continue
		}
		out.voters++
		if w.members[sideOf(m.Member)].volume == m.ID && m.Behind == 0 {
			out.intact++
		}
	}
	return out
}

// judge looks for what must not be. The loss of the only volume is one as on any other day.
func (w *World) judge(before struct{ voters, intact int }) {
	now := w.holders()
	switch {
	case w.forked && before.voters == 2:
		w.violates("the member of the source has begun a cluster of its own beside a second voter")
	case w.forked && sideOf(w.cluster.Members()[0].Member) == destination:
		w.violates("the member of the source has begun a cluster of its own after it was removed")
	case w.cluster.Lost() > 0:
		w.violates("a leader was elected that does not have what was acknowledged")
	case now.voters == 2 && now.intact == 0 && w.used.Volumes < 2:
		w.violates("nobody has what was acknowledged any more, after one loss at most")
	}
}

// endRemoved ends an etcd that learns that it is in the list no more.
func (w *World) endRemoved() {
	for s := range side(2) {
		m := &w.members[s]
		if listed, ok := w.listed(s); m.running && (!ok || listed.ID != m.volume) && !w.cut {
			m.running = false
		}
	}
}

// agentWrites counts a write of an agent, and refuses it if the agent has been killed by then.
func (w *World) agentWrites() error {
	if w.killAfter >= 0 && w.writes >= w.killAfter {
		w.killed = true
		return errKilled
	}
	w.writes++
	return nil
}

// agent lets an agent make its move.
func (w *World) agent(s side) {
	j := joint.New(joint.Config{
		Log: logr.Discard(), Client: &seedClient{world: w, side: s}, Namespace: namespace, Role: s.role(),
		Members: naming.SingleMember, SourceSeed: source.seed(), DestinationSeed: destination.seed(),
		Clock: &immediate{},
		NewCluster: func(context.Context, string) (etcdclient.Cluster, error) {
			return &agentCluster{Cluster: w.cluster.From(s.String()), world: w, side: s}, nil
		},
	})
	var (
		ctx      = context.Background()
		progress joint.Progress
		err      error
	)
	switch {
	case s == destination:
		progress, err = j.PassOn(ctx, etcdRole, func(context.Context) (*joint.Progress, error) { return nil, nil })
	case w.model.Broken.Hasty && w.members[source].wanted > 0:
		err = (&seedClient{world: w, side: source}).stop()
	default:
		if progress, err = j.TakeOnlyPod(ctx, etcdRole); err == nil && progress.Done {
			w.led = true
		}
	}
	switch {
	case err != nil && !w.killed:
		w.asks = "ActionFailed: " + firstWords(err.Error())
	case progress.Reason.Fault():
		w.asks = string(progress.Reason)
	}
}

// firstWords shorten a message to what is the same in many states.
func firstWords(text string) string {
	if strings.Contains(text, "timed out") {
		return "a request timed out"
	}
	return text
}
