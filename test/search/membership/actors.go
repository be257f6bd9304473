// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
)

// seedMoves adds what etcd-druid does. It applies the specification of an Etcd when it is asked to, and it puts back
// the pods that somebody else has taken away, unless it is suspended (v0.38.1,
// internal/component/statefulset).
func (w *World) seedMoves(out []move, s side, e etcd) []move {
	druid, statefulSet := w.etcdAt(s, e), w.statefulSet(s, e)
	if metav1.HasAnnotation(druid.ObjectMeta, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation) {
		return out
	}
	if !druidcorev1alpha1.HasReconcileOperationAnnotation(druid.ObjectMeta) &&
		*statefulSet.Spec.Replicas == druid.Spec.Replicas {
		return out
	}
	return append(out, happens(fmt.Sprintf("%s, %s: etcd-druid applies the specification", e, s), func(w *World) {
		applied, changed := druid.DeepCopy(), statefulSet.DeepCopy()
		druidcorev1alpha1.RemoveOperationAnnotation(applied.ObjectMeta)
		changed.Spec.Replicas = &applied.Spec.Replicas
		changed.Spec.UpdateStrategy.RollingUpdate = nil
		// With the third member the configuration of all changes.
		changed.Spec.Template.Labels = map[string]string{templateLabel: revisions[applied.Spec.Replicas == members]}
		w.put(s, applied)
		w.put(s, changed)
	}))
}

// placeMoves are what may happen at a place. They are the same in every state, and made once: most of the time of a
// search is spent on what may happen now.
type placeMoves struct {
	made, givenUp, replaced, ended        move
	prepared, started, caughtUp, promoted move
	crashes, losesVolume, losesItsNode    move
}

var movesAt [2][2][members]placeMoves

func newPlaceMoves(p place) placeMoves {
	name := namesOf[p.etcd][p.side][p.ordinal].action
	giveUp := func(w *World) { w.endPod(p, defaultGrace) }
	out := placeMoves{
		made:     happens(name+": the StatefulSet makes the pod", func(w *World) { w.makePod(p) }),
		givenUp:  happens(name+": the StatefulSet gives the pod up", giveUp),
		replaced: happens(name+": the StatefulSet replaces the pod", giveUp),
		ended:    happens(name+": the kubelet ends the pod", func(w *World) { w.removePod(p) }),
		prepared: happens(name+": the sidecar prepares the member", func(w *World) { w.prepare(p) }),
		started:  happens(name+": etcd starts", func(w *World) { w.begin(p) }),
		caughtUp: happens(name+": the member catches up", func(w *World) {
			w.own(p.etcd).CatchUp(w.at(p).volume)
		}),
		promoted: happens(name+": the sidecar promotes the member", func(w *World) {
			_ = w.own(p.etcd).From(p.side.zone()).Promote(context.Background(), w.at(p).volume)
		}),
		crashes: fault(name+": etcd crashes", func(w *World) {
			w.used.crashes++
			w.stop(p)
		}),
		losesVolume: fault(name+": the volume is lost", func(w *World) {
			w.used.volumes++
			w.stop(p)
			w.at(p).volume = 0
		}),
		losesItsNode: fault(name+": the node is lost with the volume", func(w *World) {
			w.used.nodes++
			w.stop(p)
			m := w.at(p)
			m.lost, m.volume = true, 0
		}),
	}
	out.promoted.optional = true
	return out
}

// podMoves adds what the controller of StatefulSets and the kubelet do to a pod. The policy of etcd-druid's
// StatefulSets is parallel: pods come and go in any order, but for a new template, with which they are replaced one by
// one, from the highest ordinal down to the partition, when all others are ready.
func (w *World) podMoves(out []move, p place) []move {
	var (
		m           = w.at(p)
		statefulSet = w.statefulSet(p.side, p.etcd)
		wanted      = p.ordinal < int(*statefulSet.Spec.Replicas)
		known       = &movesAt[p.etcd][p.side][p.ordinal]
	)
	switch {
	case wanted && !m.exists && !m.lost:
		out = append(out, known.made)
	case !wanted && m.exists && !m.deleting:
		out = append(out, known.givenUp)
	case m.exists && m.newest != hasNewest(statefulSet) && w.mayReplace(p, statefulSet):
		out = append(out, known.replaced)
	}
	if m.exists && m.deleting && !m.lost {
		out = append(out, known.ended)
	}
	return out
}

// hasNewest reports whether the StatefulSet has the newest template.
func hasNewest(statefulSet *appsv1.StatefulSet) bool {
	return statefulSet.Spec.Template.Labels[templateLabel] == revisions[true]
}

// makePod makes a pod of the template that the StatefulSet has.
func (w *World) makePod(p place) {
	m := w.at(p)
	m.exists, m.newest, m.uid, m.process = true, hasNewest(w.statefulSet(p.side, p.etcd)), w.nextUID(), stopped
}

// removePod takes a pod away.
func (w *World) removePod(p place) {
	w.stop(p)
	m := w.at(p)
	*m = memberAt{lease: m.lease, volume: m.volume}
}

// mayReplace reports whether it is the pod's turn to get a new template.
func (w *World) mayReplace(p place, statefulSet *appsv1.StatefulSet) bool {
	if update := statefulSet.Spec.UpdateStrategy.RollingUpdate; update != nil &&
		p.ordinal < int(ptr.Deref(update.Partition, 0)) {
		return false
	}
	newest := hasNewest(statefulSet)
	for ordinal := range int(*statefulSet.Spec.Replicas) {
		other := place{p.etcd, p.side, ordinal}
		if w.at(other).deleting || ordinal != p.ordinal && !w.ready(other) ||
			ordinal > p.ordinal && w.at(other).newest != newest {
			return false
		}
	}
	return true
}

// ready reports whether a pod is ready: its etcd answers a linearizable read.
func (w *World) ready(p place) bool {
	m := w.at(p)
	if !m.exists || m.lost || m.process != running {
		return false
	}
	member, ok := w.memberAt(p)
	return ok && member.Connected && w.led(p.etcd)
}

func (w *World) led(e etcd) bool {
	return slices.ContainsFunc(w.clusters[e].Members(), func(m fake.MemberState) bool { return m.Leader })
}

// memberAt returns the member whose data is at the place, and whether it is in the list.
func (w *World) memberAt(p place) (fake.MemberState, bool) {
	return byID(w.clusters[p.etcd].Members(), w.at(p).volume)
}

// stop ends the process of a member.
func (w *World) stop(p place) {
	m := w.at(p)
	if m.process == running {
		w.own(p.etcd).SetUp(p.memberName(), false)
	}
	m.process = stopped
}

// memberMoves adds what the containers of a member do, and what may become of them.
func (w *World) memberMoves(out []move, p place) []move {
	m, known := w.at(p), &movesAt[p.etcd][p.side][p.ordinal]
	if m.exists && !m.lost && !m.deleting {
		switch m.process {
		case stopped:
			out = append(out, known.prepared)
		case prepared:
			out = append(out, known.started)
		}
	}
	if member, ok := w.memberAt(p); ok && m.process == running && member.Connected && w.led(p.etcd) {
		if member.Learner && !member.Synced || member.Behind > 0 {
			out = append(out, known.caughtUp)
		}
		if member.Learner && member.Synced && !m.deleting {
			out = append(out, known.promoted)
		}
	}
	return w.memberFaults(out, p)
}

func (w *World) memberFaults(out []move, p place) []move {
	m, known := w.at(p), &movesAt[p.etcd][p.side][p.ordinal]
	if m.process == running && w.used.crashes < w.model.Crashes {
		out = append(out, known.crashes)
	}
	if m.lost || m.volume == 0 || w.used.losses() >= w.model.Losses {
		return out
	}
	if _, listed := w.memberAt(p); listed && w.used.volumes < w.model.Volumes {
		out = append(out, known.losesVolume)
	}
	if m.exists && w.used.nodes < w.model.Nodes {
		out = append(out, known.losesItsNode)
	}
	return out
}

// reach is the cluster as a sidecar in a seed reaches it.
func (w *World) reach(p place) (interface {
	etcdclient.Cluster
	AddLearner(peerURLs ...string) (uint64, error)
}, etcdclient.Membership, error) {
	cluster, ok := w.own(p.etcd).From(p.side.zone()).(interface {
		etcdclient.Cluster
		AddLearner(peerURLs ...string) (uint64, error)
	})
	if !ok {
		panic(errUnknown)
	}
	list, err := cluster.List(context.Background())
	return cluster, list, err
}

// prepare is what etcd-backup-restore v0.44.1 does before an etcd starts (pkg/initializer/initializer.go, Initialize;
// pkg/member/member_control.go):
//
//   - A member that is in the list by its name, and has its data, just starts.
//   - One that is in the list and has no data is removed, and added as a learner. If the latter fails, it is not there
//     at the next attempt.
//   - One that is not in the list has its data wiped and is added as a learner. One that was added before is content.
//   - Without an answer of the cluster the Lease tells whether it has been a member. If it has, it starts with its data
//     or tries again. If it has not, and has no data, etcd begins a cluster of its own.
func (w *World) prepare(p place) {
	m := w.at(p)
	cluster, list, err := w.reach(p)
	if err != nil {
		switch {
		case w.electing(p):
			// It tries for longer than an election takes.
		case m.volume != 0 && m.volume != bogus:
			w.run(p, m.volume)
		case !m.lease:
			m.process, m.volume = aside, bogus
		}
		return
	}
	for _, listed := range list.Members {
		if listed.Name != p.memberName() {
			continue
		}
		if listed.ID == m.volume {
			w.run(p, m.volume)
			return
		}
		if err := cluster.Remove(context.Background(), listed.ID); err != nil {
			return
		}
	}
	m.volume = 0
	if _, err := cluster.AddLearner(p.peerURL()); err == nil || errors.Is(err, fake.ErrPeerURLExists) {
		m.process = prepared
	}
}

// electing reports whether a cluster does not answer only because it has no leader, and the place reaches one that it
// may get.
func (w *World) electing(p place) bool {
	return !w.led(p.etcd) && slices.ContainsFunc(w.clusters[p.etcd].Members(), func(m fake.MemberState) bool {
		return w.clusters[p.etcd].Electable(m.ID) && (!w.cut || zoneOf(m.Member) == p.side.zone())
	})
}

// run lets an etcd with data run.
func (w *World) run(p place, id uint64) {
	m := w.at(p)
	m.process, m.volume, m.lease = running, id, true
	w.own(p.etcd).SetUp(p.memberName(), true)
}

// begin lets the etcd of a member start that was added as a learner. Its initial cluster is what the ConfigMap says of
// the members in the list (pkg/server/httpAPI.go, getInitialCluster).
func (w *World) begin(p place) {
	m := w.at(p)
	_, list, err := w.reach(p)
	if err != nil {
		if !w.electing(p) {
			m.process, m.volume = aside, bogus
		}
		return
	}
	m.process = stopped
	for _, listed := range list.Members {
		if listed.Name != "" || !slices.Contains(listed.PeerURLs, p.peerURL()) {
			continue
		}
		if w.own(p.etcd).Join(listed.ID, p.memberName(), w.initialCluster(p, list)) == nil {
			m.process, m.volume, m.lease = running, listed.ID, true
		}
	}
}

func (w *World) initialCluster(p place, list etcdclient.Membership) string {
	configMap, ok := w.objects[p.side]["ConfigMap "+p.etcd.String()+"-config"].(*corev1.ConfigMap)
	if !ok {
		panic(errUnknown)
	}
	named := map[string]bool{p.memberName(): true}
	for _, m := range list.Members {
		named[m.Name] = true
	}
	var out []string
	for line := range strings.Lines(configMap.Data[configKey]) {
		entries, found := strings.CutPrefix(strings.TrimSpace(line), initialCluster)
		if !found {
			continue
		}
		for entry := range strings.SplitSeq(entries, ",") {
			if name, _, _ := strings.Cut(entry, "="); named[name] {
				out = append(out, entry)
			}
		}
	}
	return strings.Join(out, ",")
}

// endRemoved ends each etcd that learns that its member was removed. Its sidecar prepares it again.
func (w *World) endRemoved() {
	forAll(func(p place) {
		m := w.at(p)
		if m.process != running {
			return
		}
		if _, listed := w.memberAt(p); listed {
			return
		}
		if _, err := w.clusters[p.etcd].From(p.side.zone()).List(context.Background()); err == nil {
			m.process = stopped
		}
	})
}
