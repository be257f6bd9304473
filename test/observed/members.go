// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

const (
	// votersOfSeed is how many each seed has when it has all, unless each etcd has one member.
	votersOfSeed = 3
	// unstarted begins the name of a member that was added and has not started: it has no name of its own yet.
	unstarted = "unstarted-"
)

// look is one list of members.
type look struct {
	recording.Members

	etcd string
	// learner tells of each member whether it is one.
	learner map[string]bool
}

func lookAt(etcd string, members recording.Members) look {
	l := look{Members: members, etcd: "etcd-" + etcd, learner: map[string]bool{}}
	for _, member := range members.Members {
		l.learner[member.Name] = member.Learner
	}
	return l
}

// seen is when the members have become those of the list.
func (l look) seen() change { return change{since: l.Since, until: l.Time} }

// voters is how many voters each seed has when it has all.
func (m Migration) voters() int {
	if m.OneMember {
		return 1
	}
	return votersOfSeed
}

// votersOf counts the voters whose names fit.
func (l look) votersOf(fits func(name string) bool) int {
	count := 0
	for name, learner := range l.learner {
		if !learner && fits(name) {
			count++
		}
	}
	return count
}

// arriving reports whether a member is the destination's, staying whether it is the source's: its name has the prefix
// of the source, or none, as in Etcds that are older than the prefix.
func (m Migration) arriving(name string) bool { return strings.HasPrefix(name, m.Destination+"-etcd-") }

func (m Migration) staying(name string) bool {
	return strings.HasPrefix(name, m.Source+"-etcd-") || strings.HasPrefix(name, "etcd-")
}

// checkMembers compares the member lists of an etcd with how its members move: those of the destination join as
// learners and are promoted, at most one at a time; those of the source leave when the destination has all of its
// voters.
func (m Migration) checkMembers(etcd string, found *violations) {
	lists := m.Etcd[etcd]
	if len(lists) == 0 {
		return // The recording's own verdict fails on that.
	}
	before := lookAt(etcd, lists[0])
	if n := before.votersOf(m.staying); n != len(before.learner) {
		found.add("%s begins with other members than voters of %s: %s", before.etcd, m.Source, names(before))
	}
	for _, members := range lists[1:] {
		now := lookAt(etcd, members)
		m.checkLook(now, found)
		m.checkChange(before, now, found)
		before = now
	}
	if m.finished(steps.Last()) != nil &&
		(before.votersOf(m.arriving) != m.voters() || len(before.learner) != m.voters()) {
		found.add("%s ends with other members than the %d voters of %s: %s", before.etcd, m.voters(), m.Destination,
			names(before))
	}
}

// checkLook looks at one list by itself.
func (m Migration) checkLook(now look, found *violations) {
	learners := 0
	for _, member := range now.Members.Members {
		name := member.Name
		if member.Learner {
			learners++
		}
		if !m.staying(name) && !m.arriving(name) && !strings.HasPrefix(name, unstarted) {
			found.add("%s has member %s, which is of neither seed", now.etcd, name)
		}
	}
	if learners > 1 {
		found.add("%s has %d learners at once: %s", now.etcd, learners, names(now))
	}
	if len(now.learner) > 2*m.voters() {
		found.add("%s has %d members: %s", now.etcd, len(now.learner), names(now))
	}
}

// checkChange looks at what one list has that the one before had not.
func (m Migration) checkChange(before, now look, found *violations) {
	if now.Since.IsZero() {
		found.add("the recording does not say when the members of %s were looked at before %s", now.etcd,
			format(now.Time))
	}
	if before.ClusterID != now.ClusterID {
		found.add("%s is another cluster: %x instead of %x", now.etcd, now.ClusterID, before.ClusterID)
	}
	for _, member := range now.Members.Members {
		name, learner := member.Name, member.Learner
		was, known := before.learner[name]
		switch {
		case m.mayBeReplaced(name, now):
			// It joins again, and looks may not have shown that it was gone.
		case !known && m.staying(name):
			found.add("member %s of the source has joined %s %s", name, now.etcd, now.seen())
		case !known && !m.mayJoin(now):
			found.add("member %s has joined %s %s, in a step in which none joins", name, now.etcd, now.seen())
		case known && learner && !was:
			found.add("member %s of %s was a voter and has become a learner %s", name, now.etcd, now.seen())
		}
	}
	for _, member := range before.Members.Members {
		if _, there := now.learner[member.Name]; !there && !member.Learner {
			m.checkLeave(member.Name, now, found)
		}
	}
}

// mayJoin reports whether the new members may have joined in a step in which members join.
func (m Migration) mayJoin(now look) bool {
	join, _ := steps.Get(gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined)
	move, _ := m.moving()
	return m.permitted(now.seen(), join, move)
}

// mayBeReplaced reports whether the member, or one that was added and has not started, may take the place of one that
// has lost its data.
func (m Migration) mayBeReplaced(name string, now look) bool {
	return slices.ContainsFunc(m.Lost, func(loss Loss) bool {
		of := m.staying
		if loss.Role == steps.Destination {
			of = m.arriving
		}
		return (of(name) || strings.HasPrefix(name, unstarted)) && !now.Time.Before(loss.At)
	})
}

// aborted reports whether a condition has told of an abort.
func (m Migration) aborted() bool {
	return slices.ContainsFunc(m.Transitions, func(t recording.Transition) bool {
		return aborts(steps.Reason(t.Reason))
	})
}

// checkLeave looks at a voter that has left.
func (m Migration) checkLeave(name string, now look, found *violations) {
	move, when := m.moving()
	switch n := now.votersOf(m.arriving); {
	case m.mayBeReplaced(name, now):
		// It has lost its data.
	case m.aborted() && m.arriving(name):
		// The destination withdraws.
	case m.aborted():
		found.add("voter %s of the source has left %s %s, in a migration that is aborted", name, now.etcd, now.seen())
	case !m.staying(name):
		found.add("voter %s of the destination has left %s %s", name, now.etcd, now.seen())
	case n < m.voters():
		found.add("voter %s of the source has left %s %s, when the destination had %d voters", name, now.etcd,
			now.seen(), n)
	case !m.permitted(now.seen(), move):
		found.add("voter %s has left %s %s, in a step in which none leaves", name, now.etcd, now.seen())
	case !now.Time.After(m.asked(move, asksForRemoval(move, when))):
		found.add("voter %s has left %s %s, before the destination had asked for it", name, now.etcd, now.seen())
	}
}

// asksForRemoval returns the reason with which the step asks the source to remove its members.
func asksForRemoval(move steps.Step, when steps.When) steps.Reason {
	for _, work := range move.Work {
		if work.When == when && work.By == steps.Source {
			return work.Asks
		}
	}
	return ""
}

func names(l look) string {
	var list []string
	for _, member := range l.Members.Members {
		name := member.Name
		if member.Learner {
			name += " (learner)"
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}
