// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
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
	var out strings.Builder
	out.WriteString(head(Summary(w), o))
	for _, part := range []string{Steps(w, o), ControlPlanes(w, o), Probe(w, o)} {
		if part != "" {
			out.WriteString("\n" + part)
		}
	}
	return out.String()
}

// Steps draws the steps of a migration; it is empty if there are none.
func Steps(w summary.ControlPlane, o Options) string {
	s := Summary(w)
	if len(s.Steps) == 0 {
		return ""
	}
	return section(o, "STEPS", stepNodes(w, s, o))
}

// ControlPlanes draws what is in the seeds: etcd members, pods of the kube-apiserver and DNS records. It is empty if no
// seed was looked at.
func ControlPlanes(w summary.ControlPlane, o Options) string {
	if len(w.Seeds) == 0 {
		return ""
	}
	if unknown := unknownNodes(w.Seeds); len(unknown) == len(w.Seeds) {
		return section(o, "IN THE SEEDS", unknown)
	}
	s := Summary(w)
	return section(o, "ETCD", etcdNodes(w.Seeds, s, o)) + "\n" +
		section(o, "KUBE-APISERVER", apiServerNodes(w.Seeds, s, o)) + "\n" +
		section(o, "DNS", dnsNodes(w.Seeds))
}

// Probe draws what the probe on this machine has counted; it is empty if none runs.
func Probe(w summary.ControlPlane, o Options) string {
	if w.Probe == nil {
		return ""
	}
	return section(o, "PROBE", probeNodes(*w.Probe, w.Now.Time))
}

// Summary returns what the shoot says about its migration, with what is expected of it.
func Summary(w summary.ControlPlane) summary.Summary {
	out := summary.Summarize(w.Shoot, w.Now.Time)
	out.Expect(w.Expected)
	return out
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

	state, left := stateLine(s, o)
	out.WriteString(state)
	line("Left", left)

	if s.PauseBefore != "" && !s.State.Final() {
		line("Pause", "before "+s.PauseBefore)
	}
	// The tree of the steps shows the reason of the current step itself.
	if len(s.Steps) == 0 || s.State == summary.Aborted || s.State == summary.Aborting {
		line("Reason", s.Reason)
		out.WriteString(indented("Message", messageOf(s, s.Message, o), o))
	}
	line("See", s.Runbook())
	if explanation := Explain(s.State); explanation != "" {
		line("", explanation)
	}
	return out.String()
}

// stateLine returns the state with progress and times. What is left of the migration comes by itself if the terminal is
// too narrow for both.
func stateLine(s summary.Summary, o Options) (line, left string) {
	var numbers strings.Builder
	if len(s.Steps) > 0 && s.State != summary.Aborted {
		if !o.narrow() {
			fmt.Fprintf(&numbers, "  %s", bar(s.Progress))
		}
		fmt.Fprintf(&numbers, "  %d %%", s.Progress)
	}
	times := Times(s)
	if headColumns+len(s.State)+numbers.Len()+2+len(times) > o.width() {
		left, times = Left(s), elapsed(s)
	}
	if times != "" {
		numbers.WriteString("  " + times)
	}
	return pad("State", headColumns) + State(s, o) + numbers.String() + "\n", left
}

// State writes the state in its color.
func State(s summary.Summary, o Options) string { return o.paint(stateColor(s.State), string(s.State)) }

// Times writes how long the migration has taken, and how long it still does; empty if neither is known.
func Times(s summary.Summary) string {
	var out []string
	for _, text := range []string{elapsed(s), Left(s)} {
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// elapsed writes how long the migration has taken; empty if that is not known.
func elapsed(s summary.Summary) string {
	if s.Seconds == 0 {
		return ""
	}
	return Duration(time.Duration(s.Seconds * float64(time.Second)))
}

// StepTime writes how long the step has taken, and of what; or how long it is expected to take.
func StepTime(s summary.Summary, step summary.Step) string {
	elapsed, of := timesOf(s, step)
	return elapsed + of
}

func indented(name, text string, o Options) string {
	lines := wrap(text, o.width()-headColumns)
	if len(lines) == 0 {
		return ""
	}
	return pad(name, headColumns) + strings.Join(lines, "\n"+strings.Repeat(" ", headColumns)) + "\n"
}

// Explain says what a state without steps means; empty if it needs no word.
func Explain(state summary.State) string {
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

func stepNodes(w summary.ControlPlane, s summary.Summary, o Options) []node {
	var out []node
	now := w.Now.Time
	for _, step := range s.Steps {
		symbol, c := symbolOf(step)
		text := fmt.Sprintf("%s %d %s", symbol, step.Number, pad(step.Condition, stepColumns))
		if !o.narrow() {
			text += pad(step.Owner, 14)
		}
		elapsed, of := timesOf(s, step)
		var details []string
		if countdown, ok := Countdown(step, now); ok && step.Current {
			details = append(details, countdown)
		}
		detail := ""
		if step.Current || o.Wide {
			detail = messageOf(s, step.Message, o)
		}
		switch {
		case o.narrow():
			text += padLeft(elapsed, 7)
			if step.Current && step.Reason != "" {
				detail = step.Reason + ": " + detail
			}
		default:
			text += padLeft(elapsed+of, 16)
			if step.Current && step.Reason != "" {
				text += "  " + step.Reason
			}
		}
		out = append(out, node{
			text: strings.TrimRight(text, " "), color: c,
			details: append(details, wrap(detail, o.width()-2*len(nothing))...),
		})
		if silence := silenceOf(w, s, step); silence != "" {
			n := &out[len(out)-1]
			n.color, n.details = red, append(n.details, wrap(silence, o.width()-2*len(nothing))...)
		}
	}
	return out
}

// silenceOf says that nobody is there to continue the current step, which its condition cannot say: the agent that
// would write it is away.
func silenceOf(w summary.ControlPlane, s summary.Summary, step summary.Step) string {
	if !step.Current || s.State.Final() {
		return ""
	}
	name := s.Source
	if step.Owner == string(steps.Destination) {
		name = s.Destination
	}
	for _, seed := range w.Seeds {
		if age, silent := seed.Agent.SilentFor(w.Now.Time); seed.Name == name && silent {
			return fmt.Sprintf("No agent has led in seed %s, which owns this step, for %s. Look at its pods there "+
				"(kubectl livecpm check --seed %s).", name, Duration(age), name)
		}
	}
	return ""
}

// timesOf returns how long a step has taken, or is expected to take, and of what: the expected time of the current
// one, or its deadline if nothing is expected or the deadline has passed.
func timesOf(s summary.Summary, step summary.Step) (elapsed, of string) {
	var expected summary.ExpectedStep
	known := false
	if s.Expected != nil {
		expected, known = s.Expected.Step(step.Condition)
	}
	took, begun := step.Elapsed()
	switch {
	case !begun && known && !step.Finished():
		return About(expected.Total()), ""
	case !begun:
		return "", ""
	case !step.Current:
		return Duration(took), ""
	case known && step.Status != string(gardencorev1beta1.ConditionFalse):
		return Duration(took), " of " + About(expected.Total())
	}
	return Duration(took), " of " + Duration(time.Duration(step.DeadlineSeconds)*time.Second)
}

// messageOf returns the message as it is with Wide, and otherwise without errors that only tell what is planned.
func messageOf(s summary.Summary, message string, o Options) string {
	if o.Wide {
		return message
	}
	return Planned(message, s)
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

func etcdNodes(seeds []summary.Seed, s summary.Summary, o Options) []node {
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
				lines = append(lines, "  "+memberLine(member, MemberStatus(seeds, etcd, member, s), o))
			}
			if etcd.Unasked != "" {
				lines = append(lines, "  as reported by etcd-druid; the members could not be asked: "+etcd.Unasked)
			}
		}
		return lines
	})
}

// memberLine writes a member with its role, what it does, and its numbers if it has told them.
func memberLine(member summary.Member, word string, o Options) string {
	role := strings.ToLower(member.Role)
	if role == "" {
		role = "-"
	}
	if word == "" || o.Wide {
		word = member.Status
	}
	line := fmt.Sprintf("%s %s %s", pad(member.Name, 30), pad(role, 8), word)
	if member.Lag != nil && member.DBSize != nil {
		line = fmt.Sprintf("%s %s %s lag %s db %s", pad(member.Name, 30), pad(role, 8), pad(word, 8),
			pad(fmt.Sprint(*member.Lag), 6), size(*member.DBSize))
	}
	return line
}

func apiServerNodes(seeds []summary.Seed, s summary.Summary, o Options) []node {
	return perSeed(seeds, "none", func(seed summary.Seed) []string {
		var lines []string
		for i, pod := range seed.APIServers {
			state := PodState(pod)
			if word := APIServerStatus(seed, i, s); word != "" && !o.Wide {
				state = word
			}
			lines = append(lines, fmt.Sprintf("%s %s", pad(pod.Name, 40), state))
		}
		return lines
	})
}

// PodState says whether a pod is ready.
func PodState(pod summary.Pod) string {
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
	if p.WritesFailed+p.ReadsFailed > 0 || longestStall(p) > recording.MaxWriteGap {
		c = red
	}
	details := []string{fmt.Sprintf("%d watch events, %d connection errors that clients do not see, namespace %s",
		p.WatchEvents, p.ConnectionErrors, p.Namespace)}
	if budget := stallBudget(p); budget != "" {
		details = append(details, budget)
	}
	return []node{{
		text: fmt.Sprintf("for %s: %d writes (%d failed), %d reads (%d failed)", Duration(now.Sub(p.Started.Time)),
			p.Writes, p.WritesFailed, p.Reads, p.ReadsFailed), color: c, details: details,
	}}
}

// longestStall is the longest time without an acknowledged write, before the migration or since it began.
func longestStall(p summary.Probe) time.Duration {
	return time.Duration(max(p.LongestWriteGapMs, p.BaselineLongestWriteGapMs)) * time.Millisecond
}

// stallBudget says how much of the time is left in which no write may be acknowledged, as recordings are judged: a
// countdown while writes wait, and otherwise what the longest stall has left. It is empty if the probe does not tell.
func stallBudget(p summary.Probe) string {
	const budget = recording.MaxWriteGap
	longest, since := longestStall(p), time.Duration(p.SinceLastWriteMs)*time.Millisecond
	switch {
	case longest == 0:
		return ""
	case longest > budget:
		return fmt.Sprintf("stall budget: exceeded, no write was acknowledged for %s of %s", tenths(longest), budget)
	case since >= time.Second:
		return fmt.Sprintf("stall budget: %s of %s left, no write acknowledged for %s", tenths(budget-since), budget,
			tenths(since))
	}
	return fmt.Sprintf("stall budget: %s of %s left, the longest stall took %s", tenths(budget-longest), budget,
		tenths(longest))
}

// tenths writes a short duration.
func tenths(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

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

// section draws nodes below their title.
func section(o Options, title string, nodes []node) string {
	var out strings.Builder
	out.WriteString(o.paint(bold, title) + "\n")
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
	return out.String()
}
