// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/overload"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Observation is what one look at an etcd cluster has found.
type Observation struct {
	// ClusterID identifies the cluster.
	ClusterID uint64
	// Members are the members with what was found out about each.
	Members quorum.Set
	// Raw are the entries of the member list by ID.
	Raw map[uint64]etcdclient.Member
	// Statuses are what the members that answered say about themselves, by ID.
	Statuses map[uint64]etcdclient.Status
	// Problems say for each unhealthy member, by ID, what is wrong with it.
	Problems map[uint64]string
	// Late says for each member, by ID, that has not answered for longer than overload.Bound how long that was.
	Late map[uint64]error
}

// Summary describes the members in a sentence for humans.
func (o Observation) Summary() string {
	voters := o.Members.Voters()
	text := fmt.Sprintf("%d voters (%d in the source, %d in the destination), %d healthy",
		len(voters), len(voters.On(quorum.Source)), len(voters.On(quorum.Destination)), len(voters.Healthy()))
	if learners := o.Members.Learners(); len(learners) > 0 {
		text += fmt.Sprintf(", %d learner", len(learners))
	}
	for _, member := range o.Members.Unhealthy() {
		text += fmt.Sprintf("; %s: %s", member, o.Problems[member.ID])
	}
	return text
}

// problem tells why the membership must not be changed at all, as reason and message. Both are empty if it may.
func (o Observation) problem() (steps.Reason, string) {
	if foreign := o.Members.On(quorum.Foreign); len(foreign) > 0 {
		return steps.ReasonForeignEtcdMember, fmt.Sprintf("there are members of neither seed: %s", foreign)
	}
	if _, ok := o.Members.Leader(); !ok {
		return steps.ReasonQuorumLost, "no leader is known: " + o.Summary()
	}
	if !o.Members.HasQuorum() {
		return steps.ReasonQuorumLost, "too few voters are healthy: " + o.Summary()
	}
	return "", ""
}

// Observe lists the members and asks every one for its status, in parallel. If nobody answers with a list that a quorum
// stands behind, and a member says that there is no quorum, the error is a noQuorumError.
func (j *Joint) Observe(ctx context.Context, etcdRole string) (Observation, error) {
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return Observation{}, err
	}
	list, err := cluster.List(ctx)
	if err != nil {
		for ordinal := range naming.MembersPerSeed {
			watchedPods(ctx).doubt(naming.PodName(etcdRole, ordinal))
		}
		err = fmt.Errorf("failed to look at %s: %w", naming.EtcdName(etcdRole), err)
		if lost := j.whyNoQuorum(ctx, etcdRole, cluster); lost != nil {
			lost.cause = err
			err = lost
		}
		return Observation{}, err
	}
	seen := j.look(ctx, etcdRole, cluster, list)
	if j.OnVoters != nil {
		j.OnVoters(etcdRole, len(seen.Members.Voters()))
	}
	return seen, nil
}

// look asks every member of the list for its status.
func (j *Joint) look(
	ctx context.Context, etcdRole string, cluster etcdclient.Reader, list etcdclient.Membership,
) Observation {
	look := etcdclient.Inspection{ClusterID: list.ClusterID,
		Members: make([]etcdclient.MemberInspection, len(list.Members))}
	var group sync.WaitGroup
	statusCtx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for i, member := range list.Members {
		view := &look.Members[i]
		view.Member = member
		if member.Name == "" {
			view.StatusError = etcdclient.ErrNotStarted
			continue
		}
		group.Go(func() { view.Status, view.StatusError = cluster.Status(statusCtx, member) })
	}
	group.Wait()

	seen := Observation{ClusterID: list.ClusterID, Members: make(quorum.Set, 0, len(list.Members)),
		Raw: map[uint64]etcdclient.Member{}, Statuses: map[uint64]etcdclient.Status{},
		Problems: map[uint64]string{}, Late: map[uint64]error{}}
	leader := look.Leader()
	for _, member := range look.Members {
		seen.Raw[member.ID] = member.Member
		if member.StatusError == nil {
			seen.Statuses[member.ID] = member.Status
		} else if late := overload.Check(member.Name, member.Status.Took, member.StatusError); overload.Is(late) {
			seen.Late[member.ID] = late
		}
		side, ordinal := j.classify(etcdRole, member.Member)
		if member.StatusError != nil && j.ours(side) {
			watchedPods(ctx).doubt(naming.PodName(etcdRole, ordinal))
		}
		problem := problemOf(list.ClusterID, leader, member)
		if problem != "" {
			seen.Problems[member.ID] = problem
		}
		seen.Members = append(seen.Members, quorum.Member{
			ID:      member.ID,
			Name:    member.Name,
			Side:    side,
			Ordinal: ordinal,
			Learner: member.Learner,
			Healthy: problem == "",
			Leader:  member.ID == leader,
		})
	}
	j.disownUnprefixed(etcdRole, seen.Members)
	return seen
}

// ours reports whether members of that side are in the own seed.
func (j *Joint) ours(side quorum.Side) bool {
	return side != quorum.Foreign && (side == quorum.Source) == (j.Role == steps.Source)
}

func problemOf(clusterID, leader uint64, member etcdclient.MemberInspection) string {
	if problem := member.Problem(clusterID, leader); problem != "" {
		return problem
	}
	// Every member reports the alarm NOSPACE of any. It refuses writes of clients and keeps no member from voting, so
	// it must not stop a change of the membership. The guards hold the steps that must not begin with it.
	errs := slices.DeleteFunc(
		slices.Clone(member.Status.Errors), func(text string) bool { return strings.Contains(text, "alarm:NOSPACE") })
	if len(errs) > 0 {
		return fmt.Sprintf("it reports %v", errs)
	}
	return ""
}

// classify tells the side and the ordinal of a member: by its name once it has started, by its peer URL before. The
// names of the destination's members begin with its seed's name: Gardener gives its new Etcds that prefix. Those of the
// source begin with the name of the source, or have no prefix if the Etcds are older than that (naming.MemberName).
func (j *Joint) classify(etcdRole string, member etcdclient.Member) (quorum.Side, int) {
	if member.Name == "" {
		return j.classifyUnstarted(etcdRole, member)
	}
	for _, known := range []struct {
		prefix string
		side   quorum.Side
	}{
		{j.DestinationSeed, quorum.Destination}, {j.SourceSeed, quorum.Source}, {"", quorum.Source},
	} {
		if ordinal, ok := naming.OrdinalOf(member.Name, known.prefix, etcdRole); ok {
			return known.side, ordinal
		}
	}
	return quorum.Foreign, -1
}

// peerURL returns the peer URL of a member in the seed with the role. Only members have no TLS between peers.
func (j *Joint) peerURL(role steps.Role, etcdRole string, ordinal int) string {
	if j.Members == naming.SingleMember {
		return naming.PlainPeerURL(role, j.Namespace, etcdRole)
	}
	return naming.PeerURL(role, j.Namespace, etcdRole, ordinal)
}

func (j *Joint) classifyUnstarted(etcdRole string, member etcdclient.Member) (quorum.Side, int) {
	for ordinal := range naming.MembersPerSeed {
		switch {
		case slices.Contains(member.PeerURLs, j.peerURL(steps.Destination, etcdRole, ordinal)):
			return quorum.Destination, ordinal
		case slices.Contains(member.PeerURLs, j.peerURL(steps.Source, etcdRole, ordinal)):
			return quorum.Source, ordinal
		}
	}
	return quorum.Foreign, -1
}

// disownUnprefixed takes members without a prefix for foreign ones if others of the source have it. The prefix of an
// Etcd is the same for all of its members and never changes, so one of these kinds runs somewhere else.
func (j *Joint) disownUnprefixed(etcdRole string, members quorum.Set) {
	var prefixed bool
	for _, member := range members {
		_, ok := naming.OrdinalOf(member.Name, j.SourceSeed, etcdRole)
		prefixed = prefixed || ok
	}
	if !prefixed {
		return
	}
	for i, member := range members {
		if _, ok := naming.OrdinalOf(member.Name, "", etcdRole); ok {
			members[i].Side, members[i].Ordinal = quorum.Foreign, -1
		}
	}
}
