// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// FromRecording makes a report of a recording: report.json, and details.json, without which there are no member lists
// and no events.
func FromRecording(reportJSON, detailsJSON []byte) (Report, error) {
	var (
		in  recording.Recording
		det recording.Details
	)
	if err := json.Unmarshal(reportJSON, &in); err != nil {
		return Report{}, fmt.Errorf("failed to read the recorded report: %w", err)
	}
	if len(detailsJSON) > 0 {
		if err := json.Unmarshal(detailsJSON, &det); err != nil {
			return Report{}, fmt.Errorf("failed to read the details of the recorded report: %w", err)
		}
	}
	if in.Shoot == "" || in.Result == "" {
		return Report{}, errors.New("it is no report of a migration, because it names no shoot or no result; pass " +
			"the report.json that the demo writes")
	}
	if det.Probe == nil {
		det.Probe = &recording.ProbeDetails{}
	}

	out := Report{
		Shoot: in.Shoot, Source: in.Source, Destination: in.Destination, Result: in.Result,
		Good:     in.Result == "succeeded",
		Problems: det.ProblemLines(), Seconds: in.DurationSeconds,
	}
	out.setTimes(in, det)
	out.Steps = recordedSteps(in, out.Triggered)
	out.AddTransitions(det.Transitions)
	out.Etcds = recordedEtcds(in, det)
	out.Probe = recordedProbe(in.Probe, *det.Probe)
	out.addCounts(in, det)
	out.addKinds(det.Probe.Kinds)
	if in.Ownership != nil {
		out.addOwnership(*in.Ownership)
	}
	if in.Workers != nil {
		out.addWorkers(*in.Workers)
	}
	out.addStepEvents()
	out.addMemberEvents()
	out.addClientEvents(det)
	out.sortEvents()
	return out, nil
}

func recordedEtcds(in recording.Recording, det recording.Details) []Etcd {
	var out []Etcd
	for _, role := range []string{"main", "events"} {
		recorded, ok := in.Etcd[role]
		if !ok {
			continue
		}
		etcd := Etcd{
			Name: "etcd-" + role, ClusterIDUnchanged: recorded.ClusterIDUnchanged,
			SixMemberSeconds: recorded.SixMemberWindowSeconds, Lost: recorded.AcknowledgedWritesLost,
		}
		for _, members := range det.Etcd[role] {
			etcd.Changes = append(etcd.Changes,
				Members{Time: members.Time, Voters: members.Voters, Members: members.Members})
		}
		out = append(out, etcd)
	}
	return out
}

func recordedProbe(p recording.Probe, det recording.ProbeDetails) *Probe {
	return &Probe{
		Writes: p.Writes, WritesFailed: p.WritesFailed, Reads: p.Reads, ReadsFailed: p.ReadsFailed,
		WritesRetryable: p.WritesRetryable, ReadsRetryable: p.ReadsRetryable,
		RequestsDue: det.RequestsDue, RequestsUnsent: det.MissedTicks, MaxLagMs: det.MaxLag().Milliseconds(),
		WatchEvents: p.WatchEvents, WatchEventsLost: p.WatchEventsLost,
		ConnectionErrors: p.RawConnectionErrors, LongestGapMs: p.LongestWriteGapMs,
		BaselineGapMs: p.BaselineLongestWriteGapMs,
		P50:           det.WriteP50Ms, P99: p.WriteP99Ms, After: det.Phases[recording.PhaseAfter],
		Series: det.Series,
	}
}

// addCounts adds what must be zero.
func (r *Report) addCounts(in recording.Recording, det recording.Details) {
	count := func(name string, value int64) {
		r.Facts = append(r.Facts, Fact{Name: name, Value: strconv.FormatInt(value, 10), Bad: value != 0})
	}
	count("moments without a DNS record", in.DNSMomentsWithoutRecord)
	count("restarts of etcd in the source", int64(in.SourceEtcdRestarts))
	count("controllers active in both seeds", int64(len(in.ControllersActiveInBothSeeds)))
	count("objects left in the source", int64(len(det.LeftInSource)))
	if dns := det.Probe.DNS; dns != nil {
		r.Facts = append(r.Facts, Fact{Name: "unanswered DNS samples", Note: fmt.Sprintf("of %d", dns.Samples),
			Value: strconv.FormatInt(dns.Unanswered, 10), Bad: dns.Unanswered != 0})
	}
	if len(det.ObserverErrors) > 0 {
		count("errors of observers", int64(len(det.ObserverErrors)))
	}
}

// addClientEvents tells what DNS servers and clients have seen.
func (r *Report) addClientEvents(det recording.Details) {
	for _, change := range det.DNSChanges {
		r.Events = append(r.Events, Event{
			Time: change.Time, Kind: KindDNS, Bad: len(change.New) == 0,
			Text: fmt.Sprintf("%s: %s -> %s", strings.TrimSuffix(change.Name, "."), orNothing(change.Old),
				orNothing(change.New)),
		})
	}
	for _, incident := range det.Probe.Incidents {
		// A lost connection is repaired behind the back of the client; a failed request is not.
		failed := incident.Kind == "write" || incident.Kind == "read" || incident.Kind == "watch"
		r.Events = append(r.Events,
			Event{Time: incident.Time, Kind: KindClients, Text: incident.Kind + ": " + incident.Error, Bad: failed})
	}
}

func orNothing(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

// setTimes finds out when the load began and when the migration was triggered. A report that does not say the latter
// was made by a demo whose load ran for a known time before, beside observers of the etcds.
func (r *Report) setTimes(in recording.Recording, det recording.Details) {
	var first time.Time
	for _, changes := range det.Etcd {
		if len(changes) > 0 && (first.IsZero() || changes[0].Time.Before(first)) {
			first = changes[0].Time
		}
	}
	r.Begin, r.Triggered = det.Probe.Phases[recording.PhaseBefore], det.Triggered
	if r.Begin.IsZero() {
		r.Begin = first
	}
	if r.Triggered.IsZero() {
		r.Triggered = r.Begin.Add(seconds(det.Machine["before"].DurationSeconds))
	}
	if r.Begin.IsZero() {
		r.Begin = r.Triggered
	}
	r.End = r.Triggered.Add(seconds(in.DurationSeconds))
	if end := r.Begin.Add(seconds(det.Probe.Seconds)); end.After(r.End) {
		r.End = end
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func recordedSteps(in recording.Recording, triggered time.Time) []Step {
	var out []Step
	at := triggered
	for i, step := range steps.Table() {
		view := Step{Number: i + 1, Condition: step.String(), Owner: string(step.Owner), Title: step.Title}
		if i < len(in.Steps) && in.Steps[i].Condition == step.Condition {
			begin, end := at, at.Add(seconds(in.Steps[i].Seconds))
			view.Begin, view.End, at = &begin, &end, end
			view.WriteP99Ms, view.WriteMaxMs = in.Steps[i].WriteP99Ms, in.Steps[i].WriteMaxMs
		} else {
			view.State = "not finished"
		}
		out = append(out, view)
	}
	return out
}
