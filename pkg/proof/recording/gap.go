// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"fmt"
	"slices"
	"time"
)

// MaxAgreedGap is how long the one gap may be to which the users of a shoot with one etcd member have agreed. It is
// expected to be much shorter (steps.ExpectedGap); a restart that takes longer is one that has gone wrong.
const MaxAgreedGap = time.Minute

// withoutAgreedGap takes out of the failures what is explained by one gap, if users have agreed to one. What was lost,
// or read wrongly, is never explained by it. If there was more than one gap, or a longer one, that is one more failure.
func (p *Probe) withoutAgreedGap(failures problems) problems {
	if !p.AgreedGap {
		return failures
	}
	unserved := p.Unserved()
	if len(unserved) == 0 {
		return failures
	}
	if problem := p.notOneGap(); problem != "" {
		return append(failures, "this is not the one gap that was agreed to: "+problem)
	}
	return slices.DeleteFunc(failures, func(failure string) bool { return slices.Contains(unserved, failure) })
}

// notOneGap says why what was not served was not one gap of bounded length; empty if it was.
func (p *Probe) notOneGap() string {
	if p.Details == nil || p.Details.Series == nil {
		return "the course of the run is not known"
	}
	span := p.Details.Series.failing()
	longest := time.Duration(p.LongestWriteGapMs) * time.Millisecond
	before := time.Duration(p.BaselineLongestWriteGapMs) * time.Millisecond
	switch {
	case span > MaxAgreedGap:
		return fmt.Sprintf("requests failed within %s, longer than %s", span, MaxAgreedGap)
	case longest > MaxAgreedGap:
		return fmt.Sprintf("no write was acknowledged for %s, longer than %s", longest, MaxAgreedGap)
	case before > MaxWriteGap:
		return fmt.Sprintf("no write was acknowledged for %s before it began", before)
	case p.Details.RequestsDue > 0 && p.Details.Seconds > 0:
		// What is due in the gap may wait for its end, and keep others from being sent.
		permitted := MaxUnsentPercent + 100*max(span, longest).Seconds()/p.Details.Seconds
		if share := 100 * float64(p.Details.MissedTicks) / float64(p.Details.RequestsDue); share > permitted {
			return fmt.Sprintf("%.1f %% of the requests that were due were not sent, more than %.1f %%", share,
				permitted)
		}
	}
	return ""
}

// failing returns the time from when the first request failed to when the last one had; zero if none did.
func (s *Series) failing() time.Duration {
	spans := s.FailedSpans()
	if len(spans) == 0 {
		return 0
	}
	return spans[len(spans)-1].End.Sub(spans[0].Begin)
}

// workersProblems are the problems of the workers without what is explained by the one gap, if users agreed to one.
// Clients on the nodes and requests to the nodes have no other gap than all the others.
func (r *Recording) workersProblems() problems {
	problems := r.Workers.Problems()
	failed := r.Workers.failed()
	if !r.Probe.AgreedGap || len(failed) == 0 {
		return problems
	}
	if problem := r.notTheSameGap(); problem != "" {
		return append(problems, "this is not the one gap that was agreed to: "+problem)
	}
	return slices.DeleteFunc(problems, func(problem string) bool { return slices.Contains(failed, problem) })
}

// notTheSameGap says why what failed on the nodes, and on the way to them, did not fail in the one gap of all other
// clients; empty if it did.
func (r *Recording) notTheSameGap() string {
	if r.Probe.Details == nil || r.Probe.Details.Series == nil {
		return "the course of the run is not known"
	}
	spans := r.Probe.Details.Series.FailedSpans()
	if len(spans) == 0 {
		return "only clients on the nodes, or requests to the nodes, had one"
	}
	begin, end := spans[0].Begin, spans[len(spans)-1].End
	workers := r.Workers
	type part struct {
		failed      int
		first, last time.Time
	}
	parts := []part{
		{workers.VPN.Failed, workers.VPN.FirstFailed, workers.VPN.LastFailed},
		{workers.Webhooks.Failed, workers.Webhooks.FirstFailed, workers.Webhooks.LastFailed},
		{workers.InCluster.Failed - workers.InCluster.CutByProxy, workers.InCluster.FirstFailed,
			workers.InCluster.LastFailed},
	}
	for _, stream := range workers.Streams {
		parts = append(parts, part{stream.Refused, stream.FirstRefused, stream.LastRefused})
	}
	for _, part := range parts {
		switch {
		case part.failed <= 0:
			continue
		case part.first.IsZero() || part.last.IsZero():
			return "when requests from the nodes or to the nodes failed is not known"
		}
		if part.first.Before(begin) {
			begin = part.first
		}
		if part.last.After(end) {
			end = part.last
		}
	}
	longest := time.Duration(workers.InCluster.LongestGapMs) * time.Millisecond
	switch span := end.Sub(begin); {
	case workers.InCluster.Stale > 0:
		return fmt.Sprintf("%d requests of the in-cluster clients read less than was acknowledged",
			workers.InCluster.Stale)
	case span > MaxAgreedGap:
		return fmt.Sprintf("requests of all clients failed within %s, longer than %s", span, MaxAgreedGap)
	case longest > MaxAgreedGap:
		return fmt.Sprintf("an in-cluster client had no answer for %s, longer than %s", longest, MaxAgreedGap)
	}
	return ""
}
