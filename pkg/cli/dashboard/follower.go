// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard shows a live migration as a page that follows it: the report of the migration so far, what is in
// the seeds, and the commands that the present state permits. It is served to this machine, changes nothing, and needs
// nothing from anywhere else.
package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

// beforeTrigger is how much of the probe is shown from before the migration.
const beforeTrigger = 2 * time.Minute

// Look is what was seen at one moment.
type Look struct {
	summary.ControlPlane
	// Events are those of the Shoot.
	Events []corev1.Event
	// Series is the course of the probe on this machine; nil if none runs.
	Series *recording.Series
	// Missing says what could not be looked at.
	Missing []string
}

// Follower remembers what looks have shown and the world does not tell any more: reasons, member lists, and what a
// probe has measured that has ended since.
type Follower struct {
	course recording.Course
	etcds  []report.Etcd
	probe  *summary.Probe
	series *recording.Series
	// source and destination are those of the migration that was seen in flight last.
	source, destination string
}

// Seen is what is known after a look.
type Seen struct {
	Look
	// Migration is what the shoot says about it.
	Migration summary.Summary
	// Report is the migration so far; nil if there is none.
	Report *report.Report
}

// Observe takes a look.
func (f *Follower) Observe(look Look) Seen {
	now := look.Now.Time
	out := Seen{Look: look, Migration: view.Summary(look.ControlPlane)}
	f.course.Observe(recording.LookAt(now), steps.Conditions(look.Shoot))
	f.observeMembers(look.Seeds, now)
	if look.Probe != nil {
		f.probe = look.Probe
	}
	if look.Series != nil {
		f.series = look.Series
	}
	if len(out.Migration.Steps) == 0 {
		return out
	}
	made, err := report.FromShoot(look.Shoot, look.Events, now)
	if err != nil {
		out.Missing = append(slices.Clone(look.Missing), err.Error())
		return out
	}
	if made.Source != "" && made.Destination != "" {
		f.source, f.destination = made.Source, made.Destination
	} else if made.Destination == f.destination {
		// A Shoot does not record which seed it came from.
		made.Source = f.source
	}
	f.addProbe(&made)
	made.Etcds = f.etcdsSince(made.Begin)
	made.AddTransitions(f.course.Transitions())
	made.Tables = append(made.Tables, seedTables(look.Seeds, out.Migration)...)
	out.Report = &made
	return out
}

// observeMembers takes the member lists, if all seeds were looked at and the members were asked: what etcd-druid
// reports is older, and part of a list would look as if members had left.
func (f *Follower) observeMembers(seeds []summary.Seed, now time.Time) {
	lists := map[string][]recording.Member{}
	var names []string
	for _, seed := range seeds {
		if seed.Unknown != "" {
			return
		}
		for _, etcd := range seed.Etcds {
			if etcd.Unasked != "" {
				return
			}
			if _, known := lists[etcd.Name]; !known {
				names = append(names, etcd.Name)
			}
			for _, member := range etcd.Members {
				if !asked(member) {
					return
				}
				lists[etcd.Name] = append(lists[etcd.Name],
					recording.Member{Name: member.Name, Learner: member.Role == summary.RoleLearner})
			}
		}
	}
	for _, name := range names {
		f.addMembers(name, lists[name], now)
	}
}

// asked reports whether the member has told its role itself. etcd-druid knows Leader and Member only.
func asked(member summary.Member) bool {
	switch member.Role {
	case summary.RoleVoter, summary.RoleLearner, summary.RoleLeader:
		return true
	}
	return false
}

func (f *Follower) addMembers(name string, members []recording.Member, now time.Time) {
	if len(members) == 0 {
		return
	}
	i := slices.IndexFunc(f.etcds, func(etcd report.Etcd) bool { return etcd.Name == name })
	if i < 0 {
		f.etcds = append(f.etcds, report.Etcd{Name: name, Unproved: true})
		i = len(f.etcds) - 1
	}
	etcd := &f.etcds[i]
	if n := len(etcd.Changes); n > 0 && slices.Equal(etcd.Changes[n-1].Members, members) {
		return
	}
	voters := 0
	for _, member := range members {
		if !member.Learner {
			voters++
		}
	}
	etcd.Changes = append(etcd.Changes, report.Members{Time: now, Voters: voters, Members: members})
}

// etcdsSince returns the member lists from the given time on: the last one before it is that of its beginning.
func (f *Follower) etcdsSince(begin time.Time) []report.Etcd {
	var out []report.Etcd
	for _, etcd := range f.etcds {
		first := 0
		for i, change := range etcd.Changes {
			if !change.Time.After(begin) {
				first = i
			}
		}
		etcd.Changes = slices.Clone(etcd.Changes[first:])
		if etcd.Changes[0].Time.Before(begin) {
			etcd.Changes[0].Time = begin
		}
		out = append(out, etcd)
	}
	return out
}

// addProbe adds what the probe has measured so far.
func (f *Follower) addProbe(made *report.Report) {
	if f.probe == nil || f.probe.Updated.Time.Before(made.Triggered) {
		return
	}
	made.Probe = &report.Probe{
		Running: true, Writes: f.probe.Writes, WritesFailed: f.probe.WritesFailed, Reads: f.probe.Reads,
		ReadsFailed: f.probe.ReadsFailed, WatchEvents: f.probe.WatchEvents,
		ConnectionErrors: f.probe.ConnectionErrors, Series: f.series,
		LongestGapMs: f.probe.LongestWriteGapMs, BaselineGapMs: f.probe.BaselineLongestWriteGapMs,
	}
	if f.series == nil || !f.series.Begin.Before(made.Begin) {
		return
	}
	made.Begin = f.series.Begin
	if earliest := made.Triggered.Add(-beforeTrigger); made.Begin.Before(earliest) {
		made.Begin = earliest
	}
}

// seedTables are what is in the seeds now, in the words of `get`: what is stopped or started as planned is no error.
func seedTables(seeds []summary.Seed, s summary.Summary) []report.Table {
	members := report.Table{Title: "etcd members now",
		Header: []string{"seed", "member", "role", "status", "lag", "size"}}
	others := report.Table{Title: "In the seeds now", Header: []string{"seed", "what", "state"}}
	for _, seed := range seeds {
		if seed.Unknown != "" {
			others.Rows = append(others.Rows, report.Row{Cells: []string{seed.Name, "not known", seed.Unknown}})
			continue
		}
		for _, etcd := range seed.Etcds {
			for _, member := range etcd.Members {
				if word := view.MemberStatus(seeds, etcd, member, s); word != "" {
					member.Status = word
				}
				members.Rows = append(members.Rows, memberRow(seed.Name, member))
			}
			if etcd.Unasked != "" {
				members.Note = "As etcd-druid reports them; the members could not be asked: " + etcd.Unasked
			}
		}
		for i, pod := range seed.APIServers {
			state := cmp.Or(view.APIServerStatus(seed, i, s), view.PodState(pod))
			others.Rows = append(others.Rows, report.Row{Cells: []string{seed.Name, pod.Name, state}})
		}
		for _, record := range seed.Records {
			others.Rows = append(others.Rows,
				report.Row{Cells: []string{seed.Name, record.Name, "→ " + strings.Join(record.Values, ", ")}})
		}
	}
	var out []report.Table
	for _, table := range []report.Table{members, others} {
		if len(table.Rows) > 0 {
			out = append(out, table)
		}
	}
	return out
}

func memberRow(seed string, member summary.Member) report.Row {
	lag, size := "-", "-"
	if member.Lag != nil {
		lag = fmt.Sprint(*member.Lag)
	}
	if member.DBSize != nil {
		size = fmt.Sprintf("%.1f\u00a0MiB", float64(*member.DBSize)/(1<<20))
	}
	role := strings.ToLower(member.Role)
	if role == "" {
		role = "-"
	}
	return report.Row{Cells: []string{seed, member.Name, role, member.Status, lag, size},
		Bad: member.Status == "NoLeader"}
}
