// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"strings"
	"sync"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/test/search"
)

// phase is how far the migration is, as the Shoot says it.
type phase int

const (
	// joining is step 2: two members of the destination join.
	joining phase = iota
	// five is the time from step 3 to the beginning of step 6.
	five
	// moving is step 6.
	moving
	// aborting is an abort as long as the destination takes its members out.
	aborting
	// withdrawn is an abort when the destination has said that none is left.
	withdrawn
	// done and back are the ends.
	done
	back
)

// World is two seeds with a shoot between them. It implements search.World.
type World struct {
	lock sync.Mutex
	state
}

// state is what a copy of a world has.
type state struct {
	model    *Model
	clock    *coarse
	objects  [2]objects
	version  int
	pods     int
	places   [2][2][members]memberAt
	clusters [2]*fake.Cluster
	// owned says which clusters belong to this world alone and may be changed.
	owned [2]bool
	cut   bool

	phase phase
	// asked says that the condition asks the source to retire its members.
	asked bool
	// entered says that the agent of the destination is in the loop of step 6, joined in which clusters all members
	// that it waits for have joined, and requested for which it has asked for the last one, as far as it remembers.
	entered           bool
	joined, requested [2]bool
	withdrawn         [2]bool
	memory            [2]joint.Memory
	used              budget

	// violation, asks and said are those of the last event: said is the whole message of the agent.
	violation, asks, said string
	// killAfter is after how many writes the agent is killed; less than zero is never.
	killAfter, writes int
	killed            bool
	// settled is what etcd-events and what it depends on looked like when it had nothing to do.
	settled dependencies
	// known are the moves of this state, and actions the same for others; nil if nobody has asked for them. Those of a
	// copy are the same.
	known   []move
	actions []search.Action
	// written are the parts of the key that have been written.
	written [2]part
	// changes counts the changes of the objects of each etcd.
	changes [2]int
}

// budget is how often something has happened that may happen so often only.
type budget struct{ volumes, nodes, crashes, elections, cuts, restarts, writes int }

func (b budget) losses() int { return b.volumes + b.nodes }

var _ search.World = (*World)(nil)

// New returns a world at the beginning of step 2: the source has three members in each etcd, and the Etcds of the
// destination have just been created.
func New(model Model) *World {
	w := &World{state: state{model: &model, clock: &coarse{}, killAfter: -1}}
	for s := range side(2) {
		w.objects[s] = objects{}
		for e := range etcd(2) {
			w.putSeed(s, e)
		}
	}
	for e := range etcd(2) {
		var names []string
		for ordinal := range members {
			names = append(names, place{e, source, ordinal}.memberName())
		}
		w.clusters[e] = fake.New(func(name string) string { return placeBy[name].peerURL() }, names...)
		w.clusters[e].HoldElections()
		w.clusters[e].SetZones(zoneOf)
		w.owned[e] = true
		for ordinal, m := range w.clusters[e].Members() {
			*w.at(place{e, source, ordinal}) = memberAt{exists: true, newest: true, uid: w.nextUID(), lease: true,
				process: running, volume: m.ID}
		}
	}
	if !model.Broken.Narrow {
		if err := w.joint(source).WidenInitialCluster(context.Background()); err != nil {
			panic(err)
		}
	}
	w.clock.offset = 0
	w.settleOther()
	return w
}

// putSeed makes the objects of an etcd in a seed, as they are when step 2 has created the Etcds of the destination.
func (w *World) putSeed(s side, e etcd) {
	var (
		meta     = metav1.ObjectMeta{Namespace: namespace, Name: e.String()}
		replicas = int32(members)
		etcd     = &druidcorev1alpha1.Etcd{ObjectMeta: meta}
	)
	if s == destination {
		replicas = members - 1
		etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidcorev1alpha1.BootstrapWithExistingCluster{}
	}
	etcd.Spec.Replicas = replicas
	w.put(s, etcd)
	statefulSet := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
	statefulSet.Spec.Template.Labels = map[string]string{templateLabel: revisions[s == source]}
	w.put(s, statefulSet)

	var entries []string
	forAll(func(p place) {
		// etcd-druid names the members of both seeds if the Etcd has a bootstrap.
		if p.etcd == e && (s == destination || p.side == source) {
			entries = append(entries, p.memberName()+"="+p.peerURL())
		}
	})
	meta.Name += "-config"
	w.put(s, &corev1.ConfigMap{ObjectMeta: meta,
		Data: map[string]string{configKey: initialCluster + strings.Join(entries, ",") + "\n"}})
}

const (
	configKey      = "etcd.conf.yaml"
	initialCluster = "initial-cluster: "
	// templateLabel tells which template the pods shall have.
	templateLabel = "template"
)

func (w *World) etcdOf(s side, object client.Object) *druidcorev1alpha1.Etcd {
	name := strings.TrimSuffix(object.GetName(), "-config")
	etcd, ok := w.objects[s]["Etcd "+name].(*druidcorev1alpha1.Etcd)
	if !ok {
		panic(errUnknown)
	}
	return etcd
}

func (w *World) etcdAt(s side, e etcd) *druidcorev1alpha1.Etcd {
	return w.objects[s]["Etcd "+e.String()].(*druidcorev1alpha1.Etcd)
}

func (w *World) statefulSet(s side, e etcd) *appsv1.StatefulSet {
	return w.objects[s]["StatefulSet "+e.String()].(*appsv1.StatefulSet)
}

// Clone implements search.World. Clusters and objects are copied when one of the two worlds changes them.
func (w *World) Clone() search.World {
	out := &World{state: w.state}
	out.clock = &coarse{epochs: w.clock.epochs}
	out.owned, w.owned = [2]bool{}, [2]bool{}
	return out
}

// own returns a cluster that may be changed.
func (w *World) own(e etcd) *fake.Cluster {
	w.lock.Lock()
	defer w.lock.Unlock()
	if !w.owned[e] {
		w.clusters[e], w.owned[e] = w.clusters[e].Clone(), true
	}
	return w.clusters[e]
}

// Violation implements search.World.
func (w *World) Violation() string { return w.violation }

// Asks implements search.World.
func (w *World) Asks() string { return w.asks }

// Said returns what the agent that has acted in the last event shows in the Shoot; empty if none has.
func (w *World) Said() string { return w.said }

// Goal implements search.World.
func (w *World) Goal() string {
	switch w.phase {
	case done:
		return "done: three voters in the destination"
	case back:
		return "back: three voters in the source"
	default:
		return ""
	}
}

func (w *World) aborting() bool {
	return w.phase == aborting || w.phase == withdrawn || w.phase == back
}

// violates notes the first thing that must not have happened.
func (w *World) violates(format string, args ...any) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
	}
}

// agentWrites counts a write of an agent, and refuses it if the agent has been killed by then.
func (w *World) agentWrites() error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.killAfter >= 0 && w.writes >= w.killAfter {
		w.killed = true
		return errKilled
	}
	w.writes++
	return nil
}

func (w *World) nextUID() types.UID { w.pods++; return uidOf(w.pods) }

// Do implements search.World.
func (w *World) Do(name string) error {
	w.violation, w.asks, w.said = "", "", ""
	w.writes, w.killAfter, w.killed = 0, -1, false
	for _, m := range w.moves() {
		if m.Name != name {
			continue
		}
		before := w.holdsData()
		w.known, w.actions = nil, nil
		m.do(w)
		w.clock.offset = 0
		w.endRemoved()
		w.settleOther()
		w.judge(m, before)
		return nil
	}
	return fmt.Errorf("nothing is called %q now", name)
}

// Actions implements search.World. Do not change what it returns.
func (w *World) Actions() []search.Action {
	if moves := w.moves(); w.actions == nil {
		w.actions = make([]search.Action, len(moves))
		for i, m := range moves {
			w.actions[i] = m.Action
		}
	}
	return w.actions
}

// settleOther lets etcd-events do all that it can, if it is not explored itself.
func (w *World) settleOther() {
	if w.model.Both {
		return
	}
	const enough = 50
	for range enough {
		before := w.dependencies()
		if before == w.settled {
			return
		}
		for _, m := range w.movesOf(nil, etcdEvents) {
			if !m.Fault && !m.optional && w.has(m) {
				m.do(w)
				w.endRemoved()
			}
		}
		w.clock.offset = 0
		if w.dependencies() == before {
			w.settled = before
			return
		}
	}
	w.violates("etcd-events does not come to rest")
}

// has reports whether a move of etcd-events that was possible a moment ago still is.
func (w *World) has(wanted move) bool {
	for _, m := range w.movesOf(nil, etcdEvents) {
		if m.Name == wanted.Name {
			return true
		}
	}
	return false
}
