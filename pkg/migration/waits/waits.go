// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package waits holds the sentences with which a step says until when it waits for a time to pass: for caches of DNS,
// and for clients that leave. Agents write them into the step's condition, and who shows the migration reads them there
// again: what the wait is for, until when, and how long it is as a whole.
package waits

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// For is what a wait is for.
type For string

const (
	// Caches are those of DNS, which may hold the address of the source.
	Caches For = "Caches"
	// Drain is for clients that were told to leave the source.
	Drain For = "Drain"
	// Clients is for requests that are under way, on connections that nobody can tell clients to leave.
	Clients For = "Clients"
	// Gateway is for requests that are under way, on connections at a gateway that takes no new ones.
	Gateway For = "Gateway"
)

// sentence is how a wait is told.
type sentence struct {
	what    For
	text    string
	reasons []steps.Reason
}

var sentences = []sentence{
	{Caches, "Caches may name the source", []steps.Reason{steps.ReasonWaitingForDNS}},
	{Drain, "Clients that have kept a connection to the source may leave it",
		[]steps.Reason{steps.ReasonDrainingClients}},
	{Clients, "Requests on connections to the source's kube-apiserver may finish",
		[]steps.Reason{steps.ReasonWaitingForClientsToLeave}},
	{Gateway, "The ingress gateway takes no new connections; requests on kept ones may finish",
		[]steps.Reason{steps.ReasonSourceControllersStopped, steps.ReasonDeletingSourceResources}},
}

// Wait is a wait for a time to pass.
type Wait struct {
	// For is what it is for.
	For For
	// Until is when it ends, by the clock of the agent.
	Until time.Time
	// Total is how long it is as a whole; zero if an agent of another release does not say that.
	Total time.Duration
	// TTL and Margin are what Total consists of, for caches only.
	TTL, Margin time.Duration
}

// ForCaches is the wait for caches that may hold a record with the TTL. Switched is when the last name server was seen
// to give another address.
func ForCaches(switched time.Time, ttl, margin time.Duration) Wait {
	return Wait{For: Caches, Until: switched.Add(ttl + margin), Total: ttl + margin, TTL: ttl, Margin: margin}
}

// Since is any other wait, of the given length from the given time on.
func Since(begin time.Time, total time.Duration, what For) Wait {
	return Wait{For: what, Until: begin.Add(total), Total: total}
}

// String returns the sentence for the condition.
func (w Wait) String() string {
	text := ""
	for _, known := range sentences {
		if known.what == w.For {
			text = fmt.Sprintf("%s until %s", known.text, w.Until.UTC().Format(time.RFC3339))
		}
	}
	switch {
	case w.For == Caches:
		return fmt.Sprintf("%s (TTL %s and a margin of %s)", text, w.TTL, w.Margin)
	case w.Total > 0:
		return fmt.Sprintf("%s (%s in all)", text, w.Total)
	}
	return text
}

// Left returns how long the wait still takes; never less than nothing.
func (w Wait) Left(now time.Time) time.Duration { return max(0, w.Until.Sub(now)) }

// Passed returns how much of it is over; zero if its length is not known.
func (w Wait) Passed(now time.Time) time.Duration { return max(0, w.Total-w.Left(now)) }

// pattern begins at the start of the message or behind a reason.
var pattern = regexp.MustCompile(
	`(?:^|: )([A-Z][a-zA-Z'; -]+) until (\d{4}-\d\d-\d\dT[0-9:]+Z)` +
		`(?: \((?:TTL (\S+) and a margin of (\S+)|(\S+) in all)\))?`)

// Parse reads what String has written, also behind the name of a reason and before other sentences. It returns false if
// the message is about something else, or if the reason is not one that such a wait has.
func Parse(reason steps.Reason, message string) (Wait, bool) {
	found := pattern.FindStringSubmatch(message)
	if found == nil {
		return Wait{}, false
	}
	i := slices.IndexFunc(sentences, func(known sentence) bool { return known.text == found[1] })
	until, err := time.Parse(time.RFC3339, found[2])
	if i < 0 || err != nil || !slices.Contains(sentences[i].reasons, reason) {
		return Wait{}, false
	}
	out := Wait{For: sentences[i].what, Until: until, TTL: duration(found[3]), Margin: duration(found[4])}
	if out.Total = out.TTL + out.Margin; out.Total == 0 {
		out.Total = duration(found[5])
	}
	return out, true
}

// Told returns the wait that a condition tells of. One that is past its deadline has another reason, and names the one
// that it would have in front of the message.
func Told(reason, message string) (Wait, bool) {
	if wait, ok := Parse(steps.Reason(reason), message); ok {
		return wait, true
	}
	inner, rest, found := strings.Cut(message, ": ")
	if !found {
		return Wait{}, false
	}
	return Parse(steps.Reason(inner), rest)
}

// duration returns zero for what is none.
func duration(text string) time.Duration {
	out, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return out
}
