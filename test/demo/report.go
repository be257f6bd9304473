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

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/pkg/proof/report"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/observed"
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

// expected is what a live migration has that has come to its end.
func expected() recording.Expected {
	out := recording.Expected{Etcds: []string{driver.RoleMain, driver.RoleEvents}, Steps: len(steps.Table())}
	for _, phase := range ownership.Phases() {
		out.Phases = append(out.Phases, phase.String())
	}
	return out
}

// Judge sets the result from everything that the report holds and from the errors that the run met.
func (r *Report) Judge(errs ...error) {
	var problems []string
	for _, err := range errs {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	problems = append(problems, r.Problems(&r.Details, expected())...)
	problems = append(problems, observed.Of(&r.Recording, &r.Details).Violations()...)

	r.Details.Problems = problems
	r.Result = ResultSucceeded
	if len(problems) > 0 {
		r.Result = ResultFailed
	}
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
	if lines := r.Details.ProblemLines(); len(lines) > 0 {
		b.WriteString("\nProblems:\n")
		for _, line := range lines {
			fmt.Fprintf(&b, "  - %s\n", line)
		}
	}
	return b.String()
}

// counts are the rows about what clients and observers counted.
func (r *Report) counts(row func(cells ...any)) {
	p := r.Probe
	row("", "sum", "failed", "client-go would not have sent again")
	row("writes", p.Writes, p.WritesFailed, p.WritesFailed-p.WritesRetryable)
	row("reads", p.Reads, p.ReadsFailed, p.ReadsFailed-p.ReadsRetryable)
	row("watch events", p.WatchEvents, fmt.Sprintf("%d lost", p.WatchEventsLost))
	if d := p.Details; d != nil {
		row("longest time to a watch event (ms)", d.MaxLag().Milliseconds(), "")
		row("requests that were due", d.RequestsDue, fmt.Sprintf("%d not sent", d.MissedTicks))
		if d.DNS != nil {
			row("DNS samples", d.DNS.Samples, fmt.Sprintf("%d unanswered", d.DNS.Unanswered))
		}
	}
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
	for _, stream := range w.Streams {
		row("open streams: "+stream.Kind, stream.Opened, fmt.Sprintf("%d broke, %d not opened", stream.Broken,
			stream.Refused))
	}
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
	row("step", "owner", "seconds", "p99 of writes (ms)", "slowest")
	for _, step := range r.Steps {
		row(step.Condition, step.Owner, fmt.Sprintf("%.1f", step.Seconds), step.WriteP99Ms, step.WriteMaxMs)
	}
}
