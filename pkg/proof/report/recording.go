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
)

// recording is what is read of the demo's report.json.
type recording struct {
	Result          string  `json:"result"`
	Shoot           string  `json:"shoot"`
	Source          string  `json:"source"`
	Destination     string  `json:"destination"`
	DurationSeconds float64 `json:"durationSeconds"`
	Probe           struct {
		Writes                    int64   `json:"writes"`
		WritesFailed              int64   `json:"writesFailed"`
		Reads                     int64   `json:"reads"`
		ReadsFailed               int64   `json:"readsFailed"`
		RawConnectionErrors       int64   `json:"rawConnectionErrors"`
		WatchEvents               int64   `json:"watchEvents"`
		WatchEventsLost           int64   `json:"watchEventsLost"`
		LongestWriteGapMs         int64   `json:"longestWriteGapMs"`
		BaselineLongestWriteGapMs int64   `json:"baselineLongestWriteGapMs"`
		WriteP99Ms                ByPhase `json:"writeP99Ms"`
	} `json:"probe"`
	Etcd map[string]struct {
		ClusterIDUnchanged     bool    `json:"clusterIDUnchanged"`
		SixMemberWindowSeconds float64 `json:"sixMemberWindowSeconds"`
		AcknowledgedWritesLost int64   `json:"acknowledgedWritesLost"`
	} `json:"etcd"`
	SourceEtcdRestarts           int      `json:"sourceEtcdRestarts"`
	DNSMomentsWithoutRecord      int64    `json:"dnsMomentsWithoutRecord"`
	ControllersActiveInBothSeeds []string `json:"controllersActiveInBothSeeds"`
	Steps                        []struct {
		Condition string  `json:"condition"`
		Owner     string  `json:"owner"`
		Seconds   float64 `json:"seconds"`
	} `json:"steps"`
	// Ownership and Workers are nil where they were not looked at.
	Ownership *recordedOwnership `json:"ownership"`
	Workers   *recordedWorkers   `json:"workers"`
}

// details is what is read of the demo's details.json.
type details struct {
	Triggered time.Time `json:"triggered"`
	Problems  []string  `json:"problems"`
	Probe     struct {
		Seconds    float64              `json:"seconds"`
		WriteP50Ms ByPhase              `json:"writeP50Ms"`
		Phases     map[string]time.Time `json:"phases"`
		Series     *Series              `json:"series"`
		Incidents  []struct {
			Time  time.Time `json:"time"`
			Kind  string    `json:"kind"`
			Error string    `json:"error"`
		} `json:"incidents"`
	} `json:"probe"`
	Etcd       map[string][]Members `json:"etcd"`
	DNSChanges []struct {
		Time time.Time `json:"time"`
		Name string    `json:"name"`
		Type string    `json:"type"`
		Old  []string  `json:"old"`
		New  []string  `json:"new"`
	} `json:"dnsChanges"`
	LeftInSource []string `json:"leftInSource"`
	Machine      map[string]struct {
		DurationSeconds float64 `json:"durationSeconds"`
	} `json:"machine"`
}

// FromRecording makes a report of what the demo writes: report.json, and details.json, without which there are no
// member lists and no events.
func FromRecording(reportJSON, detailsJSON []byte) (Report, error) {
	var (
		in  recording
		det details
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
		return Report{}, errors.New("it is no report of a migration: it names no shoot and no result; give the " +
			"report.json that the demo writes")
	}

	out := Report{
		Shoot: in.Shoot, Source: in.Source, Destination: in.Destination, Result: in.Result,
		Good:     in.Result == "succeeded",
		Problems: det.Problems, Seconds: in.DurationSeconds,
	}
	out.setTimes(in, det)
	out.Steps = recordedSteps(in, out.Triggered)
	for _, role := range []string{"main", "events"} {
		etcd, ok := in.Etcd[role]
		if !ok {
			continue
		}
		out.Etcds = append(out.Etcds, Etcd{
			Name: "etcd-" + role, ClusterIDUnchanged: etcd.ClusterIDUnchanged,
			SixMemberSeconds: etcd.SixMemberWindowSeconds,
			Lost:             etcd.AcknowledgedWritesLost, Changes: det.Etcd[role],
		})
	}
	p := in.Probe
	out.Probe = &Probe{
		Writes: p.Writes, WritesFailed: p.WritesFailed, Reads: p.Reads, ReadsFailed: p.ReadsFailed,
		WatchEvents: p.WatchEvents, WatchEventsLost: p.WatchEventsLost,
		ConnectionErrors: p.RawConnectionErrors, LongestGapMs: p.LongestWriteGapMs,
		BaselineGapMs: p.BaselineLongestWriteGapMs,
		P50:           det.Probe.WriteP50Ms, P99: p.WriteP99Ms, After: det.Probe.Phases["after"],
		Series: det.Probe.Series,
	}
	count := func(name string, value int64) {
		out.Facts = append(out.Facts, Fact{Name: name, Value: strconv.FormatInt(value, 10), Bad: value != 0})
	}
	count("moments without a DNS record", in.DNSMomentsWithoutRecord)
	count("restarts of etcd in the source", int64(in.SourceEtcdRestarts))
	count("controllers active in both seeds", int64(len(in.ControllersActiveInBothSeeds)))
	count("objects left in the source", int64(len(det.LeftInSource)))

	if in.Ownership != nil {
		out.addOwnership(*in.Ownership)
	}
	if in.Workers != nil {
		out.addWorkers(*in.Workers)
	}

	out.addStepEvents()
	out.addMemberEvents()
	for _, change := range det.DNSChanges {
		out.Events = append(out.Events, Event{
			Time: change.Time, Kind: KindDNS, Bad: len(change.New) == 0,
			Text: fmt.Sprintf("%s: %s -> %s", strings.TrimSuffix(change.Name, "."), orNothing(change.Old),
				orNothing(change.New)),
		})
	}
	for _, incident := range det.Probe.Incidents {
		// A lost connection is repaired behind the back of the client; a failed request is not.
		failed := incident.Kind == "write" || incident.Kind == "read" || incident.Kind == "watch"
		out.Events = append(out.Events,
			Event{Time: incident.Time, Kind: KindClients, Text: incident.Kind + ": " + incident.Error, Bad: failed})
	}
	out.sortEvents()
	return out, nil
}

func orNothing(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

// setTimes finds out when the load began and when the migration was triggered. A report that does not say the latter
// was made by a demo whose load ran for a known time before, beside observers of the etcds.
func (r *Report) setTimes(in recording, det details) {
	var first time.Time
	for _, changes := range det.Etcd {
		if len(changes) > 0 && (first.IsZero() || changes[0].Time.Before(first)) {
			first = changes[0].Time
		}
	}
	r.Begin, r.Triggered = det.Probe.Phases["before"], det.Triggered
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

func recordedSteps(in recording, triggered time.Time) []Step {
	var out []Step
	at := triggered
	for i, step := range steps.Table() {
		view := Step{Number: i + 1, Condition: step.String(), Owner: string(step.Owner), Title: step.Title}
		if i < len(in.Steps) && in.Steps[i].Condition == step.String() {
			begin, end := at, at.Add(seconds(in.Steps[i].Seconds))
			view.Begin, view.End, at = &begin, &end, end
		} else {
			view.State = "not finished"
		}
		out = append(out, view)
	}
	return out
}
