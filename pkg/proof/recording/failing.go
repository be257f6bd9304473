// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// together is how far apart requests may fail that count as one time of failure: as long as a request may take.
const together = 10 * time.Second

// FailedSpan is a time in which requests failed. It is as exact as the points of the course are short.
type FailedSpan struct {
	// Begin is when the first of them failed, End when the last one had. A request that is not answered fails when its
	// time is over, 10 s after it was due.
	Begin, End time.Time
	// Requests is how many failed.
	Requests int
}

// String says how many requests failed, and from when to when.
func (s FailedSpan) String() string {
	return fmt.Sprintf("%d requests failed from %s to %s", s.Requests, s.Begin.UTC().Format(time.TimeOnly),
		s.End.UTC().Format(time.TimeOnly))
}

// FailedSpans returns when requests failed, in the order of time; none if none did.
func (s *Series) FailedSpans() []FailedSpan {
	var spans []FailedSpan
	length := time.Duration(s.IntervalSeconds * float64(time.Second))
	for i, point := range s.Points {
		if point.Failed == 0 {
			continue
		}
		begin := s.Begin.Add(time.Duration(i) * length)
		if last := len(spans) - 1; last >= 0 && begin.Sub(spans[last].End) <= together {
			spans[last].End, spans[last].Requests = begin.Add(length), spans[last].Requests+point.Failed
			continue
		}
		spans = append(spans, FailedSpan{Begin: begin, End: begin.Add(length), Requests: point.Failed})
	}
	return spans
}

// ProblemLines are the problems and, below them, when requests failed; none if there is no problem: what fails in a gap
// that was agreed to is none.
func (d *Details) ProblemLines() []string {
	if len(d.Problems) == 0 {
		return nil
	}
	return slices.Concat(d.Problems, d.WhereFailed())
}

// WhereFailed says when requests failed, and what the migration did when they began to: one line for each time. Nothing
// if none failed, or if the course of the run is not known.
func (d *Details) WhereFailed() []string {
	if d.Probe == nil || d.Probe.Series == nil {
		return nil
	}
	var lines []string
	for _, span := range d.Probe.Series.FailedSpans() {
		lines = append(lines, fmt.Sprintf("%s, %s", span, d.doing(span.Begin)))
	}
	return lines
}

// doing says what the migration did at a time: the step with its reason, and the voters of each etcd.
func (d *Details) doing(at time.Time) string {
	parts := []string{"before the migration"}
	if !d.Triggered.IsZero() && !at.Before(d.Triggered) {
		parts[0] = "before step 1"
	}
	for _, transition := range d.Transitions {
		if !transition.Time.After(at) {
			parts[0] = fmt.Sprintf("in %s (%s)", transition.Condition, transition.Reason)
		}
	}
	for _, role := range slices.Sorted(maps.Keys(d.Etcd)) {
		voters := 0
		for _, members := range d.Etcd[role] {
			if !members.Time.After(at) {
				voters = members.Voters
			}
		}
		if voters > 0 {
			parts = append(parts, fmt.Sprintf("%d voters in etcd-%s", voters, role))
		}
	}
	return strings.Join(parts, ", ")
}
