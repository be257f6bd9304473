// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/pkg/proof/report"
	"github.com/livecpm/livecpm/test/driver"
)

// The values of Report.Result.
const (
	ResultSucceeded = "succeeded"
	ResultFailed    = "failed"
)

// Report is what a migration cost the clients of a shoot, in the form of _artifacts/demo/report.json.
type Report struct {
	recording.Recording
	// Details goes to a file of its own.
	Details Details `json:"-"`
}

// Details is what the report has no room for.
type Details = recording.Details

// ownership returns what was seen of who acts in which seed: nothing if nobody looked.
func (r *Report) ownership() OwnershipReport {
	if r.Ownership == nil {
		return OwnershipReport{}
	}
	return *r.Ownership
}

// minimumRate is the load below which a run proves nothing.
const minimumRate = 50

// maxOwnershipSeconds is the time in which both seeds are looked at at least once on the average. It is asked for every
// second; a busy machine answers later.
const maxOwnershipSeconds = 5

// Judge sets the result from everything that the report holds and from the errors that the run met.
func (r *Report) Judge(errs ...error) {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	for _, err := range errs {
		if err != nil {
			add("%v", err)
		}
	}
	for _, count := range []struct {
		name  string
		value int64
	}{
		{"probe.writesFailed", r.Probe.WritesFailed},
		{"probe.readsFailed", r.Probe.ReadsFailed},
		{"probe.watchEventsLost", r.Probe.WatchEventsLost},
		{"sourceEtcdRestarts", int64(r.SourceEtcdRestarts)},
		{"dnsMomentsWithoutRecord", r.DNSMomentsWithoutRecord},
		{"controllersActiveInBothSeeds", int64(len(r.ControllersActiveInBothSeeds))},
		{"ownership.violations", int64(len(r.ownership().Violations))},
		{"objects left in the source seed", int64(len(r.Details.LeftInSource))},
	} {
		if count.value != 0 {
			add("%s must be 0 and is %d", count.name, count.value)
		}
	}
	if violations := r.ownership().Violations; len(violations) > 0 {
		add("%s", violations[0])
	}
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		etcd, ok := r.Etcd[role]
		if !ok || len(etcd.Voters) == 0 {
			add("etcd-%s was not observed", role)
			continue
		}
		if etcd.AcknowledgedWritesLost != 0 {
			add("etcd.%s.acknowledgedWritesLost must be 0 and is %d", role, etcd.AcknowledgedWritesLost)
		}
		if !etcd.ClusterIDUnchanged {
			add("the cluster ID of etcd-%s changed", role)
		}
		if last := etcd.Voters[len(etcd.Voters)-1]; last != 3 {
			add("etcd-%s ended with %d voters instead of 3", role, last)
		}
	}
	if len(r.Steps) != len(steps.Table()) {
		add("only %d of %d steps finished", len(r.Steps), len(steps.Table()))
	}
	if r.Workers != nil {
		problems = append(problems, workersProblems(r.Workers)...)
	}
	problems = append(problems, r.doubts()...)

	r.Details.Problems = problems
	r.Result = ResultSucceeded
	if len(problems) > 0 {
		r.Result = ResultFailed
	}
}

// doubts says why the counts themselves may not be worth much: a check that was not made is no check that passed.
func (r *Report) doubts() []string {
	details := r.Probe.Details
	if details == nil {
		return []string{"there was no load"}
	}

	var doubts []string
	add := func(format string, args ...any) { doubts = append(doubts, fmt.Sprintf(format, args...)) }
	if !details.Verified {
		add("the acknowledged writes could not be verified")
	}
	if details.RequestsPerSecond < minimumRate {
		add("the load was %.1f requests per second, less than %d", details.RequestsPerSecond, minimumRate)
	}
	if samples := r.ownership().Samples; float64(samples) < r.DurationSeconds/maxOwnershipSeconds || samples == 0 {
		add("who acts in which seed was looked at only %d times in %.0f s", samples, r.DurationSeconds)
	}
	if len(details.Watches) == 0 || r.Probe.WatchEvents == 0 {
		add("the watches delivered no event")
	}
	for i, w := range details.Watches {
		if w.Duplicates+w.OutOfOrder > 0 {
			add("watch %d delivered %d events twice and %d out of order", i, w.Duplicates, w.OutOfOrder)
		}
	}
	switch dns := details.DNS; {
	case dns == nil || dns.Samples == 0:
		add("no DNS record was sampled")
	case dns.Unanswered*10 > dns.Samples:
		add("the DNS server did not answer %d of %d samples", dns.Unanswered, dns.Samples)
	}
	return doubts
}

// Err returns an error if the result is not "succeeded".
func (r *Report) Err() error {
	if r.Result == ResultSucceeded {
		return nil
	}
	return errors.New("the migration failed its checks: " + strings.Join(r.Details.Problems, "; "))
}

// Write writes report.json, details.json and report.html to the folder.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to create folder for the report: %w", err)
	}
	files := map[string][]byte{}
	for name, content := range map[string]any{"report.json": r, "details.json": r.Details} {
		data, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return fmt.Errorf("failed to encode %s: %w", name, err)
		}
		files[name] = data
	}
	read, err := report.FromRecording(files["report.json"], files["details.json"])
	if err != nil {
		return err
	}
	page, err := report.HTML(read)
	if err != nil {
		return err
	}
	files["report.html"] = []byte(page)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
	}
	return nil
}

// String returns the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Live migration of %s from %s to %s: %s in %.0f s\n\n", r.Shoot, r.Source, r.Destination, r.Result,
		r.DurationSeconds)
	for i, part := range []func(row func(cells ...any)){r.counts, r.latencies, r.members, r.stepTimes} {
		if i > 0 {
			b.WriteByte('\n')
		}
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		part(func(cells ...any) {
			texts := make([]string, 0, len(cells))
			for _, cell := range cells {
				texts = append(texts, fmt.Sprint(cell))
			}
			fmt.Fprintln(w, strings.Join(texts, "\t"))
		})
		_ = w.Flush()
	}
	if len(r.Details.Problems) > 0 {
		b.WriteString("\nProblems:\n")
		for _, problem := range r.Details.Problems {
			fmt.Fprintf(&b, "  - %s\n", problem)
		}
	}
	return b.String()
}

// counts are the rows about what clients and observers counted.
func (r *Report) counts(row func(cells ...any)) {
	p := r.Probe
	row("", "sum", "failed")
	row("writes", p.Writes, p.WritesFailed)
	row("reads", p.Reads, p.ReadsFailed)
	row("watch events", p.WatchEvents, fmt.Sprintf("%d lost", p.WatchEventsLost))
	row("connection errors hidden from clients", p.RawConnectionErrors, "")
	row("DNS moments without a record", r.DNSMomentsWithoutRecord, "")
	row("source etcd restarts", r.SourceEtcdRestarts, "")
	if r.Workers != nil {
		countsOfWorkers(r.Workers, row)
	}
	row("looks at who acts in which seed", r.ownership().Samples,
		fmt.Sprintf("%d violations", len(r.ownership().Violations)))
	row("controllers active in both seeds", len(r.ControllersActiveInBothSeeds),
		strings.Join(r.ControllersActiveInBothSeeds, ", "))
}

func countsOfWorkers(w *WorkersReport, row func(cells ...any)) {
	row("machines and nodes", len(w.Machines),
		fmt.Sprintf("%d created or deleted",
			len(w.MachinesCreated)+len(w.MachinesDeleted)+len(w.NodesCreated)+len(w.NodesDeleted)))
	row("machines, nodes, state of extensions", "", fmt.Sprintf("%d changed", len(w.Changed)))
	row("operations of the test extension", w.Operations, fmt.Sprintf("%d wrong", len(w.Misdone)))
	row("requests through the VPN", w.VPN.Requests, w.VPN.Failed)
	row("requests of in-cluster clients", w.InCluster.Requests, w.InCluster.Failed)
	row("of these, cut by an apiserver-proxy that ended", "", w.InCluster.CutByProxy)
	row("longest time without an answer in the cluster (ms)", w.InCluster.LongestGapMs,
		fmt.Sprintf("%d before", w.InCluster.BaselineLongestGapMs))
}

// latencies are the rows about how long writes took.
func (r *Report) latencies(row func(cells ...any)) {
	p := r.Probe
	row("writes", "before", "during", "after")
	if p.Details != nil {
		d := p.Details.WriteP50Ms
		row("p50 (ms)", d.Before, d.During, d.After)
	}
	row("p99 (ms)", p.WriteP99Ms.Before, p.WriteP99Ms.During, p.WriteP99Ms.After)
	row("longest gap (ms)", p.BaselineLongestWriteGapMs, p.LongestWriteGapMs, "")
}

// members are the rows about the etcd clusters.
func (r *Report) members(row func(cells ...any)) {
	row("etcd", "voters", "cluster ID", "six members for", "acknowledged writes lost")
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		etcd := r.Etcd[role]
		id := "unchanged"
		if !etcd.ClusterIDUnchanged {
			id = "CHANGED"
		}
		row(role, strings.Trim(fmt.Sprint(etcd.Voters), "[]"), id, fmt.Sprintf("%.1f s", etcd.SixMemberWindowSeconds),
			etcd.AcknowledgedWritesLost)
	}
}

// stepTimes are the rows about the steps.
func (r *Report) stepTimes(row func(cells ...any)) {
	row("step", "owner", "seconds")
	for _, step := range r.Steps {
		row(step.Condition, step.Owner, fmt.Sprintf("%.1f", step.Seconds))
	}
}
