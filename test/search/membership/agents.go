// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// joint returns an agent of one of the seeds that remembers what it did before.
func (w *World) joint(s side) *joint.Joint {
	j := joint.New(joint.Config{
		Log: logr.Discard(), Client: &agentClient{world: w, side: s}, Namespace: namespace, Role: s.role(),
		SourceSeed: source.seed(), DestinationSeed: destination.seed(), Clock: w.clock,
		NewCluster: func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
			e := etcdMain
			if etcdRole == v1beta1constants.ETCDRoleEvents {
				e = etcdEvents
			}
			return &agentCluster{world: w, side: s, etcd: e}, nil
		},
	})
	j.Recall(w.memory[s])
	return j
}

// forget lets an agent begin anew, as after a restart.
func (w *World) forget(s side) {
	w.memory[s] = joint.Memory{}
	if s == destination {
		w.entered, w.joined, w.requested, w.withdrawn = false, [2]bool{}, [2]bool{}, [2]bool{}
	}
}

// remembers reports whether a restart would make a difference.
func (w *World) remembers(s side) bool {
	m := w.memory[s]
	aside := 0
	for _, pods := range m.Aside {
		aside += len(pods)
	}
	return len(m.Unstarted)+len(m.Spells)+aside > 0 ||
		s == destination && (w.entered || w.joined != [2]bool{} || w.withdrawn != [2]bool{})
}

// agentMoves adds the moves of both agents in one etcd.
func (w *World) agentMoves(out []move, e etcd) []move {
	if w.destinationActs(e) {
		out = w.agentMove(out, destination, e)
	}
	if w.phase == moving && w.asked {
		out = w.agentMove(out, source, e)
	}
	return out
}

// killsAfter are the writes of a move after which an agent may be killed.
const killsAfter = 3

// agentMove adds the move of an agent, and the same with the agent killed after any of its writes.
func (w *World) agentMove(out []move, s side, e etcd) []move {
	known := agentMovesOf[e][s]
	if w.used.restarts >= w.model.Restarts {
		known = known[:1]
	}
	return append(out, known...)
}

// agentMovesOf are the moves of an agent in an etcd. They are the same in every state.
var agentMovesOf [2][2][]move

func init() {
	for e := range etcd(2) {
		for s := range side(2) {
			agentMovesOf[e][s] = newAgentMoves(s, e)
		}
	}
}

func newAgentMoves(s side, e etcd) []move {
	name := fmt.Sprintf("%s: the agent of the %s moves", e, s)
	act := func(w *World) {
		j := w.joint(s)
		if s == destination {
			w.moveDestination(j, e)
		} else {
			w.moveSource(j, e)
		}
		w.memory[s] = j.Memory()
		if w.killed {
			w.asks = ""
			w.forget(s)
		}
	}
	out := []move{happens(name, act)}
	for writes := range killsAfter {
		out = append(out, fault(fmt.Sprintf("%s, and is killed after %d writes", name, writes+1), func(w *World) {
			w.killAfter = writes + 1
			act(w)
			w.killAfter = -1
			if w.killed {
				w.used.restarts++
			}
		}))
	}
	return out
}

// destinationActs reports whether the agent of the destination has something to look after.
func (w *World) destinationActs(e etcd) bool {
	switch w.phase {
	case joining:
		return !w.joined[e]
	case moving:
		return true
	case aborting:
		return !w.withdrawn[e]
	default:
		return false
	}
}

// moveDestination is one look of the agent of the destination at an etcd, in the phase in which the migration is.
func (w *World) moveDestination(j *joint.Joint, e etcd) {
	switch w.phase {
	case joining:
		// Join ends for each etcd when its members have joined, and step 2 when both have.
		p, err := w.model.Decisions.advance(context.Background(), j, e.role(), members-1)
		w.says(p, err)
		if w.joined[e] = err == nil && p.Done; w.joined[etcdMain] && w.joined[etcdEvents] {
			w.phase = five
		}
	case aborting:
		p, err := w.model.Decisions.withdrawNext(context.Background(), j, e.role())
		w.says(p, err)
		if w.withdrawn[e] = err == nil && p.Done; w.withdrawn[etcdMain] && w.withdrawn[etcdEvents] {
			w.phase = withdrawn
		}
	default:
		w.moveMembers(j, e)
	}
}

// moveMembers is one look of step 6 (pkg/agent/destination/6_move_etcd.go, moveMembers and look).
func (w *World) moveMembers(j *joint.Joint, e etcd) {
	ctx := context.Background()
	if !w.entered {
		if !w.enter(ctx, j) {
			return
		}
	}
	p, err := w.model.Decisions.advance(ctx, j, e.role(), members)
	if err == nil && p.Done {
		w.asked, w.joined[e] = true, true
		var missing string
		if missing, err = j.TakeLeadership(ctx, e.role()); missing != "" {
			p = joint.Progress{Reason: steps.ReasonReadyForSourceMemberRemoval, Message: missing}
		}
	}
	w.says(p, err)
	if err := w.askForLast(ctx, j); err != nil {
		w.says(joint.Progress{}, err)
		return
	}
	if w.sourceMembers(etcdMain)+w.sourceMembers(etcdEvents) > 0 {
		// As long as members of the source are left, the agent need not ask.
		return
	}
	if left, _, err := j.OnlyDestinationLeft(ctx); err == nil && left {
		w.phase = done
	}
}

// enter begins step 6, or continues it after a restart. It returns false if it has to be tried again.
func (w *World) enter(ctx context.Context, j *joint.Joint) bool {
	begun := false
	for _, etcdRole := range naming.EtcdRoles {
		seen, err := j.Observe(ctx, etcdRole)
		if err != nil {
			w.says(joint.Progress{}, err)
			return false
		}
		begun = begun || len(seen.Members.Voters().On(quorum.Destination)) == members
	}
	if !begun {
		err := j.CheckPrompt(ctx)
		if err == nil {
			err = j.CheckDefragmentation(ctx)
		}
		if err == nil {
			err = j.SpareFirstToLeave(ctx)
		}
		if err != nil {
			w.says(joint.Progress{}, err)
			return false
		}
	}
	w.entered, w.asked, w.joined, w.requested = true, begun, [2]bool{}, [2]bool{}
	return true
}

// askForLast asks etcd-druid for the last member of each etcd whose turn it is (6_last_member.go, joinLastMember).
func (w *World) askForLast(ctx context.Context, j *joint.Joint) error {
	for _, e := range []etcd{etcdEvents, etcdMain} {
		if e == etcdMain && !w.requested[e] && !w.joined[e] && w.sourceMembers(etcdEvents) == members {
			return nil
		}
		if !w.requested[e] && w.etcdAt(destination, e).Spec.Replicas < members {
			down, ask, err := j.SourceDown(ctx, e.role())
			if err != nil || len(down) > 0 {
				w.asked = w.asked || err == nil && ask
				return err
			}
			if err := w.agentWrites(); err != nil {
				return err
			}
			scaled := w.etcdAt(destination, e).DeepCopy()
			scaled.Spec.Replicas = members
			metav1.SetMetaDataAnnotation(&scaled.ObjectMeta, v1beta1constants.GardenerOperation,
				v1beta1constants.GardenerOperationReconcile)
			w.put(destination, scaled)
		}
		w.requested[e] = true
		if !w.joined[e] {
			return nil
		}
	}
	return nil
}

// sourceMembers returns how many members of the source are in the member list of the etcd.
func (w *World) sourceMembers(e etcd) int {
	left := 0
	for _, m := range w.clusters[e].Members() {
		if p, ok := placeOf(m.Member); ok && p.side == source {
			left++
		}
	}
	return left
}

// moveSource is one look of the agent of the source at an etcd (pkg/agent/source/6_retire_members.go).
func (w *World) moveSource(j *joint.Joint, e etcd) {
	if err := j.PrepareRetirement(context.Background()); err != nil {
		w.says(joint.Progress{}, err)
		return
	}
	w.says(w.model.Decisions.retireNext(context.Background(), j, e.role()))
}

// endAbort is the last part of an abort (pkg/agent/source/abort.go).
func (w *World) endAbort() {
	j := w.joint(source)
	err := j.RemoveDestination(context.Background())
	if err == nil {
		err = j.NarrowInitialCluster(context.Background())
	}
	w.memory[source] = j.Memory()
	if err != nil {
		w.says(joint.Progress{}, err)
		return
	}
	w.phase = back
}

// says notes what an agent shows, and what it asks a person for with that: it names a fault, the members that are not
// healthy, or how many have not joined.
func (w *World) says(p joint.Progress, err error) {
	w.said = strings.TrimPrefix(string(p.Reason)+": "+p.Message, ": ")
	switch {
	case err != nil:
		w.said = "ActionFailed: " + err.Error()
		w.asks = "ActionFailed: " + sentence(err.Error())
	case p.Done:
	case p.Reason.Fault():
		w.asks = string(p.Reason) + ": " + sentence(p.Message)
	case strings.Contains(p.Message, "unhealthy"), strings.Contains(p.Message, "does not answer"):
		w.asks = string(p.Reason) + ", with the members that are not healthy"
	case strings.Contains(p.Message, "members of the destination have joined"):
		w.asks = string(p.Reason) + ", with how many have joined"
	}
}

// sentence shortens a message to what is the same in many states.
func sentence(message string) string {
	for _, known := range []string{"no leader is known", "too few voters are healthy", "request timed out",
		"would lose the quorum", "etcd-druid protects it", "does not lead", "still answers", "has not caught up",
		"it leads the cluster",
		"healthy voters of the source are expected", "has no healthy voter", "does not move",
		"stays until the others are healthy", "stays until the members that remain are healthy",
		"the source has"} {
		if strings.Contains(message, known) {
			return "… " + known + " …"
		}
	}
	return message
}

// timeMatters reports whether it makes a difference that time passes.
func (w *World) timeMatters() bool {
	for s := range side(2) {
		m := w.memory[s]
		for _, since := range m.Spells {
			if !w.clock.old(since) {
				return true
			}
		}
		for id, since := range m.Unstarted {
			if w.unstarted(id) && !w.clock.old(since) {
				return true
			}
		}
		for _, pods := range m.Aside {
			for uid, since := range pods {
				if w.hasPod(uid) && !w.clock.old(since) {
					return true
				}
			}
		}
	}
	matters := false
	forAll(func(p place) { matters = matters || w.at(p).exists && w.at(p).deleting && !w.clock.old(w.at(p).due) })
	return matters
}

// unstarted reports whether the learner is in a list and has no name.
func (w *World) unstarted(id uint64) bool {
	for _, cluster := range w.clusters {
		for _, m := range cluster.Members() {
			if m.ID == id && m.Name == "" {
				return true
			}
		}
	}
	return false
}

func (w *World) hasPod(uid types.UID) bool {
	found := false
	forAll(func(p place) { found = found || w.at(p).exists && w.at(p).uid == uid })
	return found
}

// sorted returns the texts in order, as one.
func sorted(texts []string) string {
	slices.Sort(texts)
	return strings.Join(texts, ",")
}
