// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/defragmentation"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// AlarmNoSpace is etcd's name of the alarm that a database has reached its quota. Any other one is about the data.
	AlarmNoSpace = "NOSPACE"

	// maxInUsePercent is how much of the quota data may take. A migration takes a while, and every member of the
	// destination copies the whole database.
	maxInUsePercent = 80
	// maxFilePercent is how much of the quota the database file may take. What raises the alarm is the file, with the
	// pages in it that hold nothing.
	maxFilePercent = 95

	remedyDefragmentation = "wait, it passes by itself"
)

// EtcdView is an etcd of the shoot as far as it could be read.
type EtcdView struct {
	// Name is the name of the Etcd resource.
	Name string
	// MemberNamePrefix is what it puts before the names of its members.
	MemberNamePrefix string
	// Quota is the size in bytes that a database must not reach.
	Quota int64
	// DefragmentationSchedule is the cron expression of its defragmentation; empty if there is none.
	DefragmentationSchedule string
	// Error tells why there is no member list: the etcd has no quorum or cannot be reached.
	Error error
	// Members are the members.
	Members []EtcdMemberView
	// Alarms are the alarms that are raised.
	Alarms []EtcdAlarm
	// AlarmsError tells why they are not known.
	AlarmsError error
}

// EtcdMemberView is a member of an etcd.
type EtcdMemberView struct {
	// Name is the member's name, or its identifier if it has not started.
	Name string
	// Learner reports that it has no vote.
	Learner bool
	// Version is the version of its etcd; empty if it did not answer.
	Version string
	// Problem tells why it is not healthy; empty if it is. Alarms do not count.
	Problem string
	// DBSize is the size of its database file, DBSizeInUse what of it holds data.
	DBSize, DBSizeInUse int64
	// Defragmenting reports that it is being defragmented.
	Defragmenting bool
	// DefragmentingError tells why that is unknown. It holds a step like a defragmentation.
	DefragmentingError error
	// NoDefragmentingMetric reports that its etcd publishes nothing about it, so that the schedule alone tells.
	NoDefragmentingMetric bool
}

// EtcdAlarm is an alarm.
type EtcdAlarm struct {
	// Member is the name of the member that raised it.
	Member string
	// Type is the alarm as etcd names it, for example AlarmNoSpace.
	Type string
}

// checkRequiredEtcds is checkEtcds for a seed in which there have to be etcds.
func checkRequiredEtcds(f Facts) []Finding {
	if f.EtcdsRead && f.EtcdsError == nil && len(f.Etcds) == 0 {
		return []Finding{unknown(steps.EtcdQuorum,
			"check that the Etcds exist in the shoot's namespace of seed "+f.OwnSeed+"; the check runs again by itself",
			"there is no Etcd in seed %s", f.OwnSeed)}
	}
	return checkEtcds(f)
}

// checkEtcds returns the findings about the etcds. There are none if the etcds were not to be read, or if there is no
// etcd. An etcd without a quorum shows in EtcdQuorum only: all else is a consequence, or cannot be known.
func checkEtcds(f Facts) []Finding {
	switch {
	case !f.EtcdsRead:
		return nil
	case f.EtcdsError != nil:
		return []Finding{unknown(steps.EtcdQuorum,
			"let the agent read the Etcds and their secrets in its seed; the check runs again by itself",
			"the etcds could not be read: %v", f.EtcdsError)}
	case len(f.Etcds) == 0:
		return nil
	}
	return []Finding{
		checkEtcdQuorum(f),
		checkEtcdHealth(f),
		checkEtcdSpace(f),
		checkEtcdIntegrity(f),
		checkEtcdDefragmentation(f),
		checkEtcdSize(f),
	}
}

// checkEtcdMemberPrefix looks for names that the members of both seeds would have. Those of the destination begin with
// the name of its seed, because its Etcds are new. An Etcd of the source that is older than the prefix has none, which
// cannot be changed, and collides with nothing.
func checkEtcdMemberPrefix(f Facts) Finding {
	var plain []string
	for _, etcd := range f.Etcds {
		switch prefix := etcd.MemberNamePrefix; prefix {
		case f.OwnSeed:
		case "":
			plain = append(plain, etcd.Name)
		case f.Destination.Name:
			return fail(EtcdMemberPrefix, "choose another destination, or migrate classically",
				"the members of %s have the prefix %q: those of the destination would have the same names", etcd.Name,
				prefix)
		default:
			return fail(EtcdMemberPrefix, "migrate classically: that creates the Etcds again, with the name of the "+
				"new seed as their prefix", "the members of %s have the prefix %q, neither none nor %q", etcd.Name,
				prefix, f.OwnSeed)
		}
		if member := etcd.memberOf(f.Destination.Name); member != "" {
			return fail(EtcdMemberPrefix, "find out where it comes from, and remove it from the member list if "+
				"nothing of it runs any more", "%s has a member %s already, which is what a member of the destination "+
				"would be called", etcd.Name, member)
		}
	}
	if len(plain) > 0 {
		return pass(EtcdMemberPrefix, "the members' names in the destination begin with %s, those of %s in the source "+
			"have no prefix", f.Destination.Name, strings.Join(plain, " and "))
	}
	return pass(EtcdMemberPrefix, "the members' names begin with %s", f.OwnSeed)
}

// memberOf returns the name of a member that is called like those of the seed; it is empty if there is none.
func (e EtcdView) memberOf(seed string) string {
	for _, etcdRole := range naming.EtcdRoles {
		for _, member := range e.Members {
			if _, ok := naming.OrdinalOf(member.Name, seed, etcdRole); ok {
				return member.Name
			}
		}
	}
	return ""
}

func checkEtcdQuorum(f Facts) Finding {
	const remedy = "bring back the members that are down, or the connection to them; see " +
		pages.Recovery + " if they are lost"
	var lost, fine []string
	for _, etcd := range f.Etcds {
		if etcd.Error != nil {
			lost = append(lost, fmt.Sprintf("%s: there is no member list: %v", etcd.Name, etcd.Error))
			continue
		}
		voters, healthy := etcd.voters()
		if !etcd.hasQuorum() {
			lost = append(lost, fmt.Sprintf("%s: %d of %d voters are healthy (%s)", etcd.Name, healthy, voters,
				strings.Join(etcd.problems(), "; ")))
			continue
		}
		fine = append(fine, fmt.Sprintf("%s: %d of %d voters", etcd.Name, healthy, voters))
	}
	if len(lost) > 0 {
		return fail(steps.EtcdQuorum, remedy, "%s", strings.Join(lost, "; "))
	}
	return pass(steps.EtcdQuorum, "%s are healthy", strings.Join(fine, ", "))
}

// checkEtcdHealth does not mind a single member of the source that is down while the destination has members already:
// that is a reason to leave the source, not to stay half-way, and the member may be lost for good. Step 6 retires it.
func checkEtcdHealth(f Facts) Finding {
	var problems, spared []string
	for _, etcd := range f.working() {
		to := &problems
		if etcd.canDoWithout(f.Source.Name) {
			to = &spared
		}
		for _, problem := range etcd.problems() {
			*to = append(*to, etcd.Name+": "+problem)
		}
	}
	switch {
	case len(problems) > 0:
		return fail(steps.EtcdHealth, "get the members healthy first", "%s",
			strings.Join(append(problems, spared...), "; "))
	case len(spared) > 0:
		return pass(steps.EtcdHealth, "all members are healthy, but for one of the source that nothing depends on: %s",
			strings.Join(spared, "; "))
	}
	return pass(steps.EtcdHealth, "all members are healthy")
}

// canDoWithout reports whether just one member is down, it is a voter of the source, and there is a quorum even if one
// more fails. Three voters cannot do without one.
func (e EtcdView) canDoWithout(source string) bool {
	voters, healthy := e.voters()
	if len(e.problems()) != 1 || healthy-1 < quorum.Size(voters) {
		return false
	}
	return slices.ContainsFunc(e.Members, func(m EtcdMemberView) bool {
		return m.Problem != "" && !m.Learner && strings.HasPrefix(m.Name, source+"-"+e.Name+"-")
	})
}

func checkEtcdSpace(f Facts) Finding {
	return checkAlarms(f, steps.EtcdSpace, "make room (compact and defragment), then disarm the alarm",
		func(alarm string) bool { return alarm == AlarmNoSpace })
}

func checkEtcdIntegrity(f Facts) Finding {
	return checkAlarms(f, steps.EtcdIntegrity,
		"find out which member's data differs and let it join again, then disarm the alarm",
		func(alarm string) bool { return alarm != AlarmNoSpace })
}

func checkAlarms(f Facts, name Name, remedy string, concerned func(alarm string) bool) Finding {
	var raised []string
	for _, etcd := range f.working() {
		if etcd.AlarmsError != nil {
			return unknown(name, "check that the etcd answers; the check runs again by itself",
				"the alarms of %s are not known: %v", etcd.Name, etcd.AlarmsError)
		}
		for _, alarm := range etcd.Alarms {
			if concerned(alarm.Type) {
				raised = append(raised, fmt.Sprintf("%s of member %s of %s", alarm.Type, alarm.Member, etcd.Name))
			}
		}
	}
	if len(raised) > 0 {
		return fail(name, remedy, "alarms are raised: %s", strings.Join(raised, ", "))
	}
	return pass(name, "no such alarm is raised")
}

func checkEtcdDefragmentation(f Facts) Finding {
	var unread, silent []string
	for _, etcd := range f.working() {
		if slices.ContainsFunc(etcd.Members, func(m EtcdMemberView) bool { return m.NoDefragmentingMetric }) {
			silent = append(silent, etcd.Name)
		}
		for _, member := range etcd.Members {
			switch {
			case member.Defragmenting:
				return fail(steps.EtcdDefragmentation, remedyDefragmentation, "member %s of %s is being defragmented",
					member.Name, etcd.Name)
			case member.DefragmentingError != nil:
				unread = append(unread, fmt.Sprintf("member %s of %s: %v", member.Name, etcd.Name,
					member.DefragmentingError))
			}
		}
		if finding := checkDefragmentationSchedule(etcd, f.Now); finding != nil {
			return *finding
		}
	}
	if len(unread) > 0 {
		return unknown(steps.EtcdDefragmentation,
			"check that /metrics answers on the client port of the members; the check runs again by itself",
			"it is unknown whether a member is being defragmented (%s)", strings.Join(unread, "; "))
	}
	if len(silent) > 0 {
		return pass(steps.EtcdDefragmentation, "no defragmentation is scheduled for now; members of %s publish no "+
			"metric that shows one", strings.Join(silent, " and "))
	}
	return pass(steps.EtcdDefragmentation, "no member is being defragmented or is about to be")
}

// checkDefragmentationSchedule returns a finding if a defragmentation is due about now, or if the schedule cannot be
// read.
func checkDefragmentationSchedule(etcd EtcdView, now time.Time) *Finding {
	due, err := defragmentation.Due(etcd.DefragmentationSchedule, now)
	if err != nil {
		finding := unknown(steps.EtcdDefragmentation, "fix spec.etcd.defragmentationSchedule of the Etcd",
			"the schedule %q of %s cannot be read: %v", etcd.DefragmentationSchedule, etcd.Name, err)
		return &finding
	}
	if due.IsZero() {
		return nil
	}
	finding := fail(steps.EtcdDefragmentation, remedyDefragmentation, "the defragmentation of %s is scheduled for %s",
		etcd.Name, due.Format(time.RFC3339))
	return &finding
}

func checkEtcdSize(f Facts) Finding {
	var largest []string
	for _, etcd := range f.working() {
		if etcd.Quota <= 0 {
			return unknown(steps.EtcdSize, "fix spec.etcd.quota of the Etcd", "%s has the quota %d", etcd.Name,
				etcd.Quota)
		}
		var percent int64
		for _, member := range etcd.Members {
			inUse, file := member.DBSizeInUse*100/etcd.Quota, member.DBSize*100/etcd.Quota
			percent = max(percent, inUse)
			switch {
			case inUse >= maxInUsePercent:
				return fail(steps.EtcdSize,
					"delete what is not needed and wait for the compaction, or raise spec.etcd.quota",
					"member %s of %s has %s of data, %d %% of the quota of %s; less than %d %% is required",
					member.Name, etcd.Name, size(member.DBSizeInUse), inUse, size(etcd.Quota), maxInUsePercent)
			case file >= maxFilePercent:
				return fail(steps.EtcdSize, "defragment the etcd",
					"the database file of member %s of %s has %s, %d %% of the quota of %s; less than %d %% "+
						"is required",
					member.Name, etcd.Name, size(member.DBSize), file, size(etcd.Quota), maxFilePercent)
			}
		}
		largest = append(largest, fmt.Sprintf("%s: %d %% of the quota", etcd.Name, percent))
	}
	return pass(steps.EtcdSize, "%s", strings.Join(largest, ", "))
}

// working returns the etcds that have a quorum.
func (f Facts) working() []EtcdView {
	var out []EtcdView
	for _, etcd := range f.Etcds {
		if etcd.hasQuorum() {
			out = append(out, etcd)
		}
	}
	return out
}

func (e EtcdView) hasQuorum() bool {
	voters, healthy := e.voters()
	return e.Error == nil && voters > 0 && healthy >= quorum.Size(voters)
}

func (e EtcdView) voters() (voters, healthy int) {
	for _, member := range e.Members {
		if member.Learner {
			continue
		}
		voters++
		if member.Problem == "" {
			healthy++
		}
	}
	return voters, healthy
}

func (e EtcdView) problems() []string {
	var out []string
	for _, member := range e.Members {
		if member.Problem != "" {
			out = append(out, fmt.Sprintf("member %s: %s", member.Name, member.Problem))
		}
	}
	return out
}

func size(bytes int64) string {
	return resource.NewQuantity(bytes>>20<<20, resource.BinarySI).String()
}
