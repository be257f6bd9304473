// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/report"
)

const notKnown = "not known"

var (
	//go:embed page.html
	pageText     string
	pageTemplate = template.Must(template.New("ticket").Funcs(template.FuncMap{
		"breakable": report.Breakable,
		"unknown":   func(text string) bool { return text == notKnown },
	}).Parse(pageText))
)

// table is a table of the ticket, for every format that people read.
type table struct {
	Title  string
	Header []string
	Rows   [][]string
	// Bad are the rows that should be otherwise.
	Bad map[int]bool
}

// add adds a row.
func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// tables are everything that the facts say, except for what is not known.
func tables(f Facts) []table {
	out := []table{migrationTable(f), stepsTable(f)}
	if reasons := reasonsTable(f); len(reasons.Rows) > 0 {
		out = append(out, reasons)
	}
	return append(out, versionsTable(f), etcdTable(f), countsTable(f))
}

func migrationTable(f Facts) table {
	out := table{Title: "Migration", Header: []string{"fact", "value"}, Bad: map[int]bool{}}
	out.add("shoot", f.Shoot.Namespace+"/"+f.Shoot.Name)
	out.add("UID", or(f.Shoot.UID))
	out.add("technical ID", or(f.Shoot.TechnicalID))
	out.add("source", or(f.Source))
	out.add("destination", or(f.Destination))
	out.add("result", f.Result)
	out.Bad[len(out.Rows)-1] = f.Over && f.Result != "Succeeded"
	by := or(f.Requested.By)
	if f.Requested.By != "" {
		by += ", as the Shoot said; the audit log of the garden proves it"
	}
	out.add("requested by", by)
	with := or(f.Requested.With)
	if f.Requested.At != nil {
		with += ", which has set spec.seedName at " + moment(f.Requested.At)
	}
	out.add("requested with", with)
	out.add("started", moment(f.Started))
	ended, took := moment(f.Ended), notKnown
	if !f.Over {
		ended, took = "not yet", "not over"
	}
	if f.Seconds > 0 {
		took = seconds(f.Seconds)
	}
	out.add("ended", ended)
	out.add("took", took)
	return out
}

func stepsTable(f Facts) table {
	out := table{Title: "Steps", Header: []string{"#", "step", "owner", "took"}}
	for _, step := range f.Steps {
		took := notKnown
		switch {
		case step.Seconds != nil:
			took = seconds(*step.Seconds)
		case step.State != "":
			took = step.State
		}
		out.add(fmt.Sprint(step.Number), step.Condition, step.Owner, took)
	}
	return out
}

func reasonsTable(f Facts) table {
	out := table{Title: "Where the time went", Header: []string{"step", "reason", "took"}}
	for _, step := range f.Steps {
		for _, stand := range step.Reasons {
			took := fmt.Sprintf("%.1f s", float64(stand.Milliseconds)/1000)
			if stand.Milliseconds >= 10000 {
				took = seconds((stand.Milliseconds + 500) / 1000)
			}
			out.add(fmt.Sprintf("%d %s", step.Number, step.Condition), or(stand.Reason), took)
		}
	}
	return out
}

func versionsTable(f Facts) table {
	out := table{Title: "Versions", Header: []string{"of", "version"}}
	v := f.Versions
	out.add("plugin", v.Plugin)
	out.add("Gardener in the plugin", or(v.PluginGardener))
	out.add("chart in the garden", or(v.Chart))
	out.add("gardener-apiserver", or(v.Gardener))
	for _, seed := range []struct {
		role, name string
		versions   SeedVersions
	}{{"source", f.Source, v.Source}, {"destination", f.Destination, v.Destination}} {
		in := " in the " + seed.role
		if seed.name != "" {
			in = " in seed " + seed.name
		}
		out.add("agent"+in, or(seed.versions.Agent))
		out.add("Gardener in that agent", or(seed.versions.AgentGardener))
		out.add("gardenlet"+in, or(seed.versions.Gardenlet))
		out.add("relay"+in, or(seed.versions.Relay))
	}
	return out
}

func etcdTable(f Facts) table {
	out := table{Title: "etcd members", Header: []string{"etcd", "before", "after"}, Bad: map[int]bool{}}
	for _, etcd := range f.Etcds {
		out.add(etcd.Name, names(etcd.Before), names(etcd.After))
		out.add(etcd.Name+", cluster ID", or(etcd.IDBefore), or(etcd.IDAfter))
		out.Bad[len(out.Rows)-1] = etcd.IDBefore != "" && etcd.IDAfter != "" && etcd.IDBefore != etcd.IDAfter
	}
	if len(f.Etcds) == 0 {
		out.add("all", notKnown, notKnown)
	}
	return out
}

func countsTable(f Facts) table {
	out := table{Title: "Counts", Header: []string{"what", "count", "of"}, Bad: map[int]bool{}}
	for _, count := range f.Counts {
		of := ""
		if count.Of != nil {
			of = fmt.Sprint(*count.Of)
		}
		out.add(count.Name, fmt.Sprint(count.Value), of)
		out.Bad[len(out.Rows)-1] = count.Bad
	}
	if len(f.Counts) == 0 {
		out.add("requests of clients", notKnown, "")
	}
	return out
}

func or(text string) string {
	if text == "" {
		return notKnown
	}
	return text
}

func moment(at *time.Time) string {
	if at == nil {
		return notKnown
	}
	return at.UTC().Format("2006-01-02 15:04:05 MST")
}

func seconds(s int64) string {
	if s < 60 {
		return fmt.Sprintf("%d s", s)
	}
	return fmt.Sprintf("%d min %d s", s/60, s%60)
}

func names(members []Member) string {
	var out []string
	for _, member := range members {
		name := member.Name
		if member.Learner {
			name += " (learner)"
		}
		out = append(out, name)
	}
	return or(strings.Join(out, ", "))
}

// page writes the ticket for browsers, and for paper.
func page(f Facts, seal Seal, content []byte) (string, error) {
	var out strings.Builder
	if err := pageTemplate.Execute(&out, struct {
		Facts
		Seal
		Style     template.CSS
		StyleHash string
		Tables    []table
		Made      string
		Canonical string
	}{f, seal, template.CSS(report.Style()), report.HashOf(report.Style()), tables(f), //nolint:gosec // It is ours.
		moment(&f.Made), string(content)}); err != nil {
		return "", fmt.Errorf("failed to write the ticket: %w", err)
	}
	return out.String(), nil
}

// text writes the ticket as Markdown.
func text(f Facts, seal Seal, content []byte) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Live migration of %s/%s: %s\n\n", cell(f.Shoot.Namespace), cell(f.Shoot.Name), cell(f.Result))
	for _, t := range tables(f) {
		fmt.Fprintf(&out, "## %s\n\n| %s |\n|%s\n", t.Title, strings.Join(t.Header, " | "),
			strings.Repeat(" --- |", len(t.Header)))
		for i, row := range t.Rows {
			var cells []string
			for _, text := range row {
				text = cell(text)
				if t.Bad[i] && text != "" {
					text = "**" + text + "**"
				}
				cells = append(cells, text)
			}
			fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
		}
		out.WriteString("\n")
	}
	if len(f.Unknown) > 0 {
		out.WriteString("## Not known\n\n")
		for _, unknown := range f.Unknown {
			fmt.Fprintf(&out, "- %s: %s\n", cell(unknown.What), cell(unknown.Why))
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "## Facts for programs\n\nCollected %s by kubectl livecpm %s. Verify this file with "+
		"`kubectl livecpm report verify FILE`.\n\n```json livecpm-facts\n%s\n```\n\n- sha256: `%s`\n", moment(&f.Made),
		cell(f.MadeBy), content, seal.SHA256)
	if seal.Signature != "" {
		fmt.Fprintf(&out, "- signature: `%s`\n- key: `%s`\n", seal.Signature, seal.Key)
	} else {
		out.WriteString("\nThe facts are not signed: the digest reports whether they were damaged, and not who has " +
			"written them.\n")
	}
	return out.String()
}

// cell keeps a text from breaking out of its cell, and from being taken for more than text.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", "`", "'").Replace(text)
}
