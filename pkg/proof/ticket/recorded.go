// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

// New returns facts that say nothing yet but who collects them, and when.
func New(now time.Time, release, gardener string) Facts {
	return Facts{Kind: Kind, Version: Version, Made: now.UTC().Truncate(time.Second), MadeBy: release,
		Versions: Versions{Plugin: release, PluginGardener: gardener}}
}

// Second returns the time as facts have it; nil stays nil.
func Second(at *time.Time) *time.Time {
	if at == nil || at.IsZero() {
		return nil
	}
	out := at.UTC().Truncate(time.Second)
	return &out
}

// AddSteps adds the steps of a report.
func (f *Facts) AddSteps(steps []report.Step) {
	for _, step := range steps {
		out := Step{Number: step.Number, Condition: step.Condition, Owner: step.Owner, State: step.State}
		if step.Begin != nil && step.End != nil && step.End.After(*step.Begin) {
			took := int64(math.Round(step.End.Sub(*step.Begin).Seconds()))
			out.Seconds = &took
		}
		for _, stand := range step.Reasons {
			out.Reasons = append(out.Reasons, Stand{Reason: stand.Reason, Milliseconds: stand.Took().Milliseconds()})
		}
		f.Steps = append(f.Steps, out)
	}
}

// AddProbe adds what a probe has counted.
func (f *Facts) AddProbe(p recording.Probe, details *recording.ProbeDetails) {
	of := func(all int64) *int64 { return &all }
	f.Counts = append(f.Counts,
		Count{Name: "failed writes", Value: p.WritesFailed, Of: of(p.Writes), Bad: p.WritesFailed > 0},
		Count{Name: "failed reads", Value: p.ReadsFailed, Of: of(p.Reads), Bad: p.ReadsFailed > 0},
		Count{Name: "lost watch events", Value: p.WatchEventsLost, Of: of(p.WatchEvents), Bad: p.WatchEventsLost > 0},
		Count{Name: "connection errors that clients hid", Value: p.RawConnectionErrors},
		Count{Name: "longest time without a write before the migration, in milliseconds",
			Value: p.BaselineLongestWriteGapMs},
		Count{Name: "longest time without a write from the migration on, in milliseconds", Value: p.LongestWriteGapMs,
			Bad: p.LongestWriteGapMs > recording.MaxWriteGap.Milliseconds()},
	)
	if details == nil {
		return
	}
	if details.Verified {
		lost := details.AcknowledgedWritesLost + details.AcknowledgedEventsLost
		f.Counts = append(f.Counts, Count{Name: "lost acknowledged writes", Value: lost, Bad: lost > 0})
	} else {
		f.Missing("lost acknowledged writes", "the probe could not look for all of them in the end")
	}
	if details.RequestsDue > 0 {
		f.Counts = append(f.Counts, Count{Name: "requests not sent", Value: details.MissedTicks,
			Of: of(details.RequestsDue), Bad: details.MissedTicks*100 > details.RequestsDue*recording.MaxUnsentPercent})
	}
}

// AddProbeFile adds what `kubectl livecpm probe -o json` has written. It refuses a probe that has not run beside this
// migration, whose times are those of the facts.
func (f *Facts) AddProbeFile(content []byte) error {
	var file struct {
		recording.Probe
		Details *recording.ProbeDetails `json:"details"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return fmt.Errorf("failed to read what the probe has measured: %w", err)
	}
	if file.Details == nil {
		return fmt.Errorf("the file of the probe has no details; write it with kubectl livecpm probe -o json")
	}
	const tolerance = 2 * time.Minute
	during, seen := file.Details.Phases[recording.PhaseDuring]
	switch {
	case !seen:
		return fmt.Errorf("the probe has not seen a migration: it ran before or after one")
	case f.Started == nil:
		return fmt.Errorf("nobody knows when the migration began, so that the probe may have measured another one")
	case during.Before(f.Started.Add(-tolerance)) || during.After(f.Started.Add(tolerance)):
		return fmt.Errorf("the probe has measured another migration: it saw one begin at %s, and this one began at %s",
			during.UTC().Format(time.RFC3339), f.Started.Format(time.RFC3339))
	}
	f.AddProbe(file.Probe, file.Details)
	return nil
}

// FromRecording returns the facts of a recorded migration: report.json, and details.json, without which there are no
// member lists.
func FromRecording(reportJSON, detailsJSON []byte, facts Facts) (Facts, error) {
	made, err := report.FromRecording(reportJSON, detailsJSON)
	if err != nil {
		return facts, err
	}
	var (
		in      recording.Recording
		details recording.Details
	)
	if err := json.Unmarshal(reportJSON, &in); err != nil {
		return facts, fmt.Errorf("failed to read the recorded report: %w", err)
	}
	if len(detailsJSON) > 0 {
		if err := json.Unmarshal(detailsJSON, &details); err != nil {
			return facts, fmt.Errorf("failed to read the details of the recorded report: %w", err)
		}
	}
	facts.Shoot.Namespace, facts.Shoot.Name, _ = strings.Cut(in.Shoot, "/")
	facts.Source, facts.Destination, facts.Over = in.Source, in.Destination, true
	facts.Result = in.Result
	if made.Good {
		facts.Result = string(summary.Succeeded)
	}
	facts.Started = Second(&made.Triggered)
	if in.DurationSeconds > 0 && facts.Started != nil {
		ended := made.Triggered.Add(time.Duration(in.DurationSeconds * float64(time.Second)))
		facts.Ended, facts.Seconds = Second(&ended), int64(math.Round(in.DurationSeconds))
	}
	facts.AddSteps(made.Steps)
	facts.addRecordedEtcds(made.Etcds, details)
	facts.AddProbe(in.Probe, details.Probe)
	count := func(name string, value int64) {
		facts.Counts = append(facts.Counts, Count{Name: name, Value: value, Bad: value > 0})
	}
	count("moments without a DNS record", in.DNSMomentsWithoutRecord)
	count("restarts of etcd in the source", int64(in.SourceEtcdRestarts))
	count("controllers active in both seeds", int64(len(in.ControllersActiveInBothSeeds)))
	if len(detailsJSON) > 0 {
		count("objects left in the source", int64(len(details.LeftInSource)))
	}
	const notRecorded = "the recording does not tell"
	facts.Missing("UID and technical ID of the shoot", notRecorded)
	facts.Missing("who requested the migration, and with which program", notRecorded)
	facts.Missing("the versions in garden and seeds", notRecorded)
	return facts, nil
}

// addRecordedEtcds adds the first and the last member list of each etcd.
func (f *Facts) addRecordedEtcds(etcds []report.Etcd, details recording.Details) {
	for _, etcd := range etcds {
		if len(etcd.Changes) == 0 {
			f.Missing("the members of "+etcd.Name, "there is no details.json beside the recording")
			continue
		}
		lists := details.Etcd[strings.TrimPrefix(etcd.Name, "etcd-")]
		first, last := lists[0], lists[len(lists)-1]
		f.Etcds = append(f.Etcds, Etcd{Name: etcd.Name, IDBefore: fmt.Sprintf("%x", first.ClusterID),
			IDAfter: fmt.Sprintf("%x", last.ClusterID), Before: membersOf(first.Members),
			After: membersOf(last.Members)})
	}
}

func membersOf(members []recording.Member) []Member {
	var out []Member
	for _, member := range members {
		out = append(out, Member(member))
	}
	return out
}
