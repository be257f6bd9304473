// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

const (
	between = "├─ "
	last    = "└─ "
	below   = "│  "
	nothing = "   "
	// headColumns is the width of the names above the tree.
	headColumns = 10
	// stepColumns is a little more than the longest name of a step.
	stepColumns = 43
)

// node is a line of a tree with lines that belong to it.
type node struct {
	text    string
	color   color
	details []string
}

// Tree draws a migration with all that is known of it.
func Tree(w summary.ControlPlane, o Options) string {
	summary := summary.Summarize(w.Shoot, w.Now.Time)

	var out strings.Builder
	out.WriteString(head(summary, o))
	if len(summary.Steps) > 0 {
		section(&out, o, "STEPS", stepNodes(summary, o))
	}
	if unknown := unknownNodes(w.Seeds); len(unknown) == len(w.Seeds) && len(unknown) > 0 {
		section(&out, o, "IN THE SEEDS", unknown)
	} else if len(w.Seeds) > 0 {
		section(&out, o, "ETCD", etcdNodes(w.Seeds))
		section(&out, o, "KUBE-APISERVER", apiServerNodes(w.Seeds))
		section(&out, o, "DNS", dnsNodes(w.Seeds))
	}
	if w.Probe != nil {
		section(&out, o, "PROBE", probeNodes(*w.Probe, w.Now.Time))
	}
	return out.String()
}

func head(s summary.Summary, o Options) string {
	var out strings.Builder
	line := func(name, value string) {
		if value != "" {
			out.WriteString(pad(name, headColumns) + o.clip(value, headColumns) + "\n")
		}
	}
	line("Shoot", s.Key())
	line("Seeds", Seeds(s))

	out.WriteString(pad("State", headColumns) + o.paint(stateColor(s.State), string(s.State)))
	if len(s.Steps) > 0 && s.State != summary.Aborted {
		if !o.narrow() {
			fmt.Fprintf(&out, "  %s", bar(s.Progress))
		}
		fmt.Fprintf(&out, "  %d %%", s.Progress)
	}
	if s.Seconds > 0 {
		out.WriteString("  " + Duration(time.Duration(s.Seconds*float64(time.Second))))
	}
	out.WriteString("\n")

	if s.PauseBefore != "" && !s.State.Final() {
		line("Pause", "before "+s.PauseBefore)
	}
	// The tree of the steps shows the reason of the current step itself.
	if len(s.Steps) == 0 || s.State == summary.Aborted || s.State == summary.Aborting {
		line("Reason", s.Reason)
		out.WriteString(indented("Message", s.Message, o))
	}
	line("See", s.Runbook())
	if explanation := explain(s.State); explanation != "" {
		line("", explanation)
	}
	return out.String()
}

func indented(name, text string, o Options) string {
	lines := wrap(text, o.width()-headColumns)
	if len(lines) == 0 {
		return ""
	}
	return pad(name, headColumns) + strings.Join(lines, "\n"+strings.Repeat(" ", headColumns)) + "\n"
}

func explain(state summary.State) string {
	switch state {
	case summary.None:
		return "No live migration has been requested."
	case summary.Classic:
		return "A classic migration is in flight: the intent annotation is not set."
	case summary.Requested:
		return "Waiting for the agent in the source seed."
	}
	return ""
}

// Seeds writes from where to where.
func Seeds(s summary.Summary) string {
	switch {
	case s.Source != "" && s.Destination != "":
		return s.Source + " -> " + s.Destination
	case s.Source != "":
		return s.Source
	}
	return s.Destination
}

func stateColor(state summary.State) color {
	switch state {
	case summary.Succeeded:
		return green
	case summary.Overdue, summary.Held:
		return red
	case summary.Paused, summary.Aborting, summary.Aborted:
		return yellow
	case summary.Processing, summary.Requested:
		return cyan
	}
	return plain
}

func bar(percent int32) string {
	const length = 20
	done := int(percent) * length / 100
	return "[" + strings.Repeat("#", done) + strings.Repeat(".", length-done) + "]"
}

func stepNodes(s summary.Summary, o Options) []node {
	var out []node
	for _, step := range s.Steps {
		symbol, c := symbolOf(step)
		text := fmt.Sprintf("%s %d %s", symbol, step.Number, pad(step.Condition, stepColumns))
		if !o.narrow() {
			text += pad(step.Owner, 14)
		}
		elapsed, deadline := "", ""
		if d, ok := step.Elapsed(); ok {
			elapsed = Duration(d)
			if step.Current {
				deadline = " of " + Duration(time.Duration(step.DeadlineSeconds)*time.Second)
			}
		}
		detail := ""
		if step.Current || o.Wide {
			detail = step.Message
		}
		switch {
		case o.narrow():
			text += padLeft(elapsed, 7)
			if step.Current && step.Reason != "" {
				detail = step.Reason + ": " + detail
			}
		default:
			text += padLeft(elapsed+deadline, 14)
			if step.Current && step.Reason != "" {
				text += "  " + step.Reason
			}
		}
		out = append(out, node{
			text: strings.TrimRight(text, " "), color: c,
			details: wrap(detail, o.width()-2*len(nothing)),
		})
	}
	return out
}

func symbolOf(step summary.Step) (string, color) {
	switch {
	case step.Finished():
		return "✔", green
	case step.Undone():
		return "↩", yellow
	case step.Status == string(gardencorev1beta1.ConditionFalse):
		return "✖", red
	case step.Fault:
		return "!", red
	case step.Current && step.Status == string(gardencorev1beta1.ConditionProgressing):
		return "▶", cyan
	case step.Current:
		return "‖", yellow
	}
	return "○", faint
}

func etcdNodes(seeds []summary.Seed) []node {
	return perSeed(seeds, "no etcd of the shoot", func(seed summary.Seed) []string {
		var lines []string
		for _, etcd := range seed.Etcds {
			ready := 0
			for _, pod := range etcd.Pods {
				if pod.Ready && !pod.Terminating {
					ready++
				}
			}
			lines = append(lines, fmt.Sprintf("%s: %d of %d pods ready", etcd.Name, ready, len(etcd.Pods)))
			for _, member := range etcd.Members {
				role := strings.ToLower(member.Role)
				if role == "" {
					role = "-"
				}
				line := fmt.Sprintf("  %s %s %s", pad(member.Name, 30), pad(role, 8), member.Status)
				if member.Lag != nil && member.DBSize != nil {
					line = fmt.Sprintf("  %s %s %s lag %s db %s", pad(member.Name, 30), pad(role, 8),
						pad(member.Status, 8),
						pad(fmt.Sprint(*member.Lag), 6), size(*member.DBSize))
				}
				lines = append(lines, line)
			}
			if etcd.Unasked != "" {
				lines = append(lines, "  as reported by etcd-druid; the members could not be asked: "+etcd.Unasked)
			}
		}
		return lines
	})
}

func apiServerNodes(seeds []summary.Seed) []node {
	return perSeed(seeds, "none", func(seed summary.Seed) []string {
		var lines []string
		for _, pod := range seed.APIServers {
			lines = append(lines, fmt.Sprintf("%s %s", pad(pod.Name, 40), podState(pod)))
		}
		return lines
	})
}

func podState(pod summary.Pod) string {
	switch {
	case pod.Terminating:
		return "terminating"
	case pod.Ready:
		return "ready"
	}
	return "not ready"
}

func dnsNodes(seeds []summary.Seed) []node {
	return perSeed(seeds, "manages no record", func(seed summary.Seed) []string {
		var lines []string
		for _, record := range seed.Records {
			lines = append(lines, fmt.Sprintf("%s -> %s", record.Name, strings.Join(record.Values, ", ")))
		}
		return lines
	})
}

func probeNodes(p summary.Probe, now time.Time) []node {
	c := green
	if p.WritesFailed+p.ReadsFailed > 0 {
		c = red
	}
	return []node{{
		text: fmt.Sprintf("for %s: %d writes (%d failed), %d reads (%d failed)", Duration(now.Sub(p.Started.Time)),
			p.Writes, p.WritesFailed, p.Reads, p.ReadsFailed), color: c,
		details: []string{fmt.Sprintf("%d watch events, %d connection errors that clients do not see, namespace %s",
			p.WatchEvents, p.ConnectionErrors, p.Namespace)},
	}}
}

// unknownNodes are the seeds of which nothing is known.
func unknownNodes(seeds []summary.Seed) []node {
	var out []node
	for _, seed := range seeds {
		if seed.Unknown != "" {
			out = append(out, node{text: seed.Name + ": not known, " + seed.Unknown})
		}
	}
	return out
}

func perSeed(seeds []summary.Seed, empty string, lines func(summary.Seed) []string) []node {
	var out []node
	for _, seed := range seeds {
		if seed.Unknown != "" {
			out = append(out, node{text: seed.Name + ": not known, " + seed.Unknown})
			continue
		}
		details := lines(seed)
		if len(details) == 0 {
			out = append(out, node{text: seed.Name + ": " + empty})
			continue
		}
		out = append(out, node{text: seed.Name, details: details})
	}
	return out
}

func section(out *strings.Builder, o Options, title string, nodes []node) {
	out.WriteString("\n" + o.paint(bold, title) + "\n")
	for i, item := range nodes {
		branch, stem := between, below
		if i == len(nodes)-1 {
			branch, stem = last, nothing
		}
		out.WriteString(branch + o.paint(item.color, o.clip(item.text, len(nothing))) + "\n")
		for _, detail := range item.details {
			out.WriteString(strings.TrimRight(stem+nothing+o.clip(detail, 2*len(nothing)), " ") + "\n")
		}
	}
}
