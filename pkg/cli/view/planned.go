// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// What is stopped or started on purpose looks like what has failed: a member does not answer, a pod is not ready. What
// follows tells the two apart, from where the migration stands and what is seen. It is careful: whatever does not fit
// the plan exactly is shown as it is. With -o wide everything is.

// memberState is what is known of one etcd member when it is put into words.
type memberState struct {
	// source reports that it belongs to the source.
	source bool
	// ordinal is its number in the StatefulSet; negative if its name does not tell.
	ordinal int
	// sourceMembers is how many members of the source the cluster has.
	sourceMembers int
	// answers reports that it is ready.
	answers bool
}

// word returns what happens to a member as planned; empty if nothing does, or if it answers.
func (m memberState) word(s summary.Summary) string {
	if m.answers || m.ordinal < 0 || s.State == summary.Overdue || steps.Reason(s.Reason).Fault() {
		return ""
	}
	all := naming.MembersPerSeed
	if s.WithGap {
		all = naming.SingleMember
	}
	reason := steps.Reason(s.Reason)
	switch {
	case m.source && s.WithGap:
		// It is removed while it works. One that does not answer before has failed.
		return ""
	case m.source && reason == steps.ReasonReadyForSourceMemberRemoval && m.ordinal == m.sourceMembers-1:
		// The source retires its members from the highest ordinal on.
		return planned("stopping", all-m.ordinal, all)
	case !m.source && slices.Contains(joining, reason):
		return planned("starting", m.ordinal+1, all)
	case !m.source && m.sourceMembers == 0 && slices.Contains(rolling, reason):
		return planned("restarting", all-m.ordinal, all)
	}
	return ""
}

// joining and rolling are the reasons while members of the destination join, and while they restart.
var (
	joining = []steps.Reason{steps.ReasonJoiningEtcdMembers, steps.ReasonWaitingForEtcdMember,
		steps.ReasonJoiningLastEtcdMember}
	rolling = []steps.Reason{steps.ReasonRollingEtcd, steps.ReasonSourceControllersStopped,
		steps.ReasonDeletingSourceResources, steps.ReasonDeployingControlPlane}
)

func planned(what string, number, of int) string {
	return fmt.Sprintf("%s, as planned (%d of %d)", what, number, of)
}

// MemberStatus returns what happens to a member as planned; empty if nothing does, or if it answers. The Etcd is that
// of the seed whose member it is.
func MemberStatus(seeds []summary.Seed, etcd summary.Etcd, member summary.Member, s summary.Summary) string {
	state := memberState{ordinal: -1, answers: member.Status == "Ready"}
	for _, seed := range seeds {
		for _, other := range seed.Etcds {
			if other.Name != etcd.Name {
				continue
			}
			own := slices.ContainsFunc(other.Members, func(m summary.Member) bool { return m.Name == member.Name })
			if seed.Name == s.Source {
				state.sourceMembers = len(other.Members)
				state.source = own
			}
		}
	}
	if found := ordinalOf.FindStringSubmatch(member.Name); found != nil {
		state.ordinal, _ = strconv.Atoi(found[1])
	}
	return state.word(s)
}

// ordinalOf finds the number of a member in its name.
var ordinalOf = regexp.MustCompile(`etcd-(?:main|events)-(\d)$`)

// podOf is which pod of how many it is, in which seed.
type podOf struct {
	seed       string
	number, of int
}

// APIServerStatus returns what happens to a pod of the seed's kube-apiserver as planned; empty if nothing does. The
// index is that of the pod in the seed.
func APIServerStatus(seed summary.Seed, index int, s summary.Summary) string {
	return apiServerWord(s, seed.APIServers[index], podOf{seed.Name, index + 1, len(seed.APIServers)})
}

// apiServerWord returns what happens to a pod of the kube-apiserver as planned; empty if nothing does.
func apiServerWord(s summary.Summary, pod summary.Pod, which podOf) string {
	if s.State == summary.Overdue || steps.Reason(s.Reason).Fault() {
		return ""
	}
	source := which.seed == s.Source
	reason := steps.Reason(s.Reason)
	switch {
	case source && pod.Terminating && slices.Contains([]steps.Reason{steps.ReasonStoppingSourceControlPlane,
		steps.ReasonSourceControllersStopped, steps.ReasonDeletingSourceResources}, reason):
		return planned("stopping", which.number, which.of)
	case !source && !pod.Ready && !pod.Terminating && reason == steps.ReasonDeployingKubeAPIServer:
		return planned("starting", which.number, which.of)
	}
	return ""
}

var (
	// unhealthyMember is what a message says of a member that does not answer, up to the next cluster.
	unhealthyMember = regexp.MustCompile(`(?:^|; )((\S+-)?(etcd-(?:main|events))-(\d)) ` +
		`\([0-9a-f]+(?:, [a-z]+)*, unhealthy\): (?:[^;]|;[^ ])*`)
	// restartingMember is what it says of one that restarts.
	restartingMember = regexp.MustCompile(`member (\d) restarts: (?:[^;]|;[^ ])*`)
	// sourceVoters is how many members the source has in a cluster, according to a message.
	sourceVoters = regexp.MustCompile(`\d+ voters \((\d) in the source`)
	// cluster begins what a message says of one etcd.
	cluster = regexp.MustCompile(`(?:^|; )etcd-(?:main|events): `)
)

// Planned returns the message of the current step with members that are stopped or started on purpose in these words,
// and without the errors by which that is seen. Whatever is not planned stays as it is.
func Planned(message string, s summary.Summary) string {
	starts := cluster.FindAllStringIndex(message, -1)
	out, end := "", 0
	for i, start := range starts {
		out += message[end:start[0]]
		end = len(message)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		out += plannedIn(message[start[0]:end], s)
	}
	return out + message[end:]
}

// plannedIn does the same with what is said of one etcd.
func plannedIn(text string, s summary.Summary) string {
	members := 0
	if found := sourceVoters.FindStringSubmatch(text); found != nil {
		members, _ = strconv.Atoi(found[1])
	}
	text = unhealthyMember.ReplaceAllStringFunc(text, func(part string) string {
		found := unhealthyMember.FindStringSubmatch(part)
		name, prefix := found[1], found[2]
		ordinal, _ := strconv.Atoi(found[4])
		// Members of a source that is older than the names' prefix have none.
		state := memberState{source: prefix != s.Destination+"-", ordinal: ordinal, sourceMembers: members}
		word := state.word(s)
		if word == "" {
			return part
		}
		return "; " + name + " is " + word
	})
	return restartingMember.ReplaceAllStringFunc(text, func(part string) string {
		ordinal, _ := strconv.Atoi(restartingMember.FindStringSubmatch(part)[1])
		word := memberState{ordinal: ordinal}.word(s)
		if word == "" {
			return part
		}
		return fmt.Sprintf("member %d is %s", ordinal, word)
	})
}
