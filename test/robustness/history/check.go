// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Requirements say what a history must hold to prove anything.
type Requirements struct {
	// Clients is the number of clients that must have taken part.
	Clients int
	// Answers and Writes are how many answered operations and acknowledged writes each of them must have.
	Answers, Writes int
	// Streams is the number of watches that must have been followed.
	Streams int
	// Timeout bounds the search for a linearization.
	Timeout time.Duration
}

// DefaultRequirements are met by a run of a few minutes with the default load, a fault of ten minutes included.
func DefaultRequirements() Requirements {
	return Requirements{Clients: DefaultClients, Answers: 300, Writes: 100, Streams: DefaultStreams,
		Timeout: 5 * time.Minute}
}

// Verdict is what a check comes to.
type Verdict struct {
	// Linearizable is "Ok", "Illegal", or "Unknown" if the search ran out of time.
	Linearizable string `json:"linearizable"`
	// Lost are the acknowledged writes that are not there.
	Lost []Operation `json:"lost,omitempty"`
	// Problems are all reasons why the history is not accepted.
	Problems []string `json:"problems,omitempty"`
}

// Err returns an error if the history is not accepted.
func (v *Verdict) Err() error {
	if len(v.Problems) == 0 {
		return nil
	}
	return errors.New("the history is not accepted: " + strings.Join(v.Problems, "; "))
}

// maxProblems bounds how many problems of one sort are spelled out: one lost revision often drags hundreds along.
const maxProblems = 10

// problems collects what is wrong.
type problems struct {
	list  []string
	sorts map[string]int
}

func (p *problems) add(sort, format string, args ...any) {
	if p.sorts == nil {
		p.sorts = map[string]int{}
	}
	p.sorts[sort]++
	if p.sorts[sort] <= maxProblems {
		p.list = append(p.list, fmt.Sprintf(format, args...))
	}
}

// all returns the problems, with a note for each sort that has more than are spelled out.
func (p *problems) all() []string {
	list := p.list
	for sort, count := range p.sorts {
		if count > maxProblems {
			list = append(list, fmt.Sprintf("and %d more like it (%s)", count-maxProblems, sort))
		}
	}
	return list
}

// Check judges the history.
func Check(h *History, requirements Requirements) *Verdict {
	found := &problems{}
	checkLoad(h, requirements, found)
	events := checkStreams(h, found)
	lost := checkDelivery(h, found)
	checkReads(h, events, found)

	result := linearizable(h, requirements.Timeout)
	switch result {
	case porcupine.Ok:
	case porcupine.Unknown:
		found.add("linearizability", "linearizability was not checked: the search did not end within %s",
			requirements.Timeout)
	default:
		found.add("linearizability", "the operations are not linearizable: no order of them explains all answers")
	}
	return &Verdict{Linearizable: string(result), Lost: lost, Problems: found.all()}
}

func linearizable(h *History, timeout time.Duration) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(), forPorcupine(resolve(h)), timeout)
}

// Linearizable says of a history by itself what Verdict.Linearizable does.
func Linearizable(h *History, timeout time.Duration) string { return string(linearizable(h, timeout)) }

// checkLoad makes sure that there was something to judge.
func checkLoad(h *History, requirements Requirements, found *problems) {
	answers, writes := map[int]int{}, map[int]int{}
	for _, o := range h.Operations {
		if o.Answered() {
			answers[o.Client]++
		}
		if o.Acknowledged() {
			writes[o.Client]++
		}
	}
	for client := range requirements.Clients {
		if answers[client] < requirements.Answers || writes[client] < requirements.Writes {
			found.add("load", "too little load: client %d has %d answered operations and %d acknowledged writes, "+
				"needed are %d and %d",
				client, answers[client], writes[client], requirements.Answers, requirements.Writes)
		}
	}
	if len(h.Streams) < requirements.Streams {
		found.add("load", "only %d of %d watches were followed", len(h.Streams), requirements.Streams)
	}
}
