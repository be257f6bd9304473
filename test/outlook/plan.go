// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"fmt"
	"strings"
	"time"
)

// Plan is what a demo is going to do, for its first screen.
type Plan struct {
	// Shoot is the name of the shoot, From and To are seeds; they are empty if it is known only later.
	Shoot string
	// Machine is what the durations were scaled to, Model the name of its processor.
	Machine Machine
	Model   string
	// Stages are the stages of the run, Left how long all of it takes.
	Stages []StageOutlook
	Left   time.Duration
	// Now is the time of day.
	Now time.Time
	// State and Cache are the folders of the landscape and of what is built once.
	State, Cache string
	// There is what is there already.
	There State
	// Components is how many real components the run needs.
	Components int
}

// what a stage does, for a reader who sees it for the first time.
func (p Plan) what(stage Stage) string {
	switch stage {
	case StageTools:
		return fmt.Sprintf("%s (%d of %d are built)", stage, len(p.There.Built), p.Components)
	case StageLandscape:
		if p.There.Up {
			return "check garden and seeds, which are up"
		}
		return "start a garden and two seeds, beside the builds"
	case StageShoot:
		if p.There.Shoot {
			return "find shoot " + p.Shoot
		}
		return "create shoot " + p.Shoot + ", with three members in each etcd"
	case StageMigration:
		return "move its control plane to the other seed, live"
	case StageBefore:
		return "put load on the shoot: 70 requests/s, 10 watches"
	case StageAfter:
		return "keep the load for a while, then write the report"
	default:
		return string(stage)
	}
}

// Lines renders the screen.
func (p Plan) Lines() []string {
	lines := []string{
		"livecpm moves the control plane of a Gardener shoot to another seed, while its API server keeps answering.",
		"This is what make demo does on this machine:",
		"",
		fmt.Sprintf("  %-54s %9s   %s", "", "takes", "done at"),
	}
	for i, stage := range p.Stages {
		takes := Minutes(stage.Takes)
		if stage.Takes <= 0 {
			takes = "-"
		}
		lines = append(lines, fmt.Sprintf("  %d  %-51s %9s   %s", i+1, p.what(stage.Stage), short(takes),
			p.Now.Add(stage.DoneAfter).Format("15:04")))
	}
	lines = append(lines,
		"",
		fmt.Sprintf("  It takes %s in all, until %s. %s", Minutes(p.Left), p.Now.Add(p.Left).Format("15:04"),
			p.machine()),
		"  Outside of this machine it contacts only the Go module proxy: no container engine, no registry.",
		"",
		"  It leaves behind: the running landscape (7 GB of memory, half a processor); "+p.State+" (up to 6 GB);",
		"  "+p.Cache+" (1.2 GB), and Go's own caches. make landscape-down takes the landscape down.",
		"  Ctrl-C stops it within seconds, at any moment. Run make demo again to resume.",
		"",
	)
	return lines
}

// short says the same in fewer columns.
func short(text string) string { return strings.Replace(text, "a few seconds", "seconds", 1) }

func (p Plan) machine() string {
	relation := "as fast as"
	switch speed := p.Machine.Speed; {
	case speed > 1.1:
		relation = fmt.Sprintf("%.1f times as fast as", speed)
	case speed < 0.9:
		relation = fmt.Sprintf("%.1f times as slow as", 1/max(speed, 0.01))
	}
	return fmt.Sprintf("%d processors (%s), each %s that of the reference.", p.Machine.Cores, p.Model, relation)
}
