// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

const (
	// publishInterval is how often the counts are published, and the migration is looked at.
	publishInterval = time.Second
	// stopTimeout bounds the verification and the removal of the namespace.
	stopTimeout = 5 * time.Minute
)

// Load is what a run drives. *probe.Probe is one.
type Load interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) (*probe.Result, error)
	Mark(phase probe.Phase)
	Snapshot() probe.Snapshot
	Namespace() string
}

// ProbeRun puts the load on the shoot and follows the shoot's migration meanwhile.
type ProbeRun struct {
	// Load is the load.
	Load Load
	// Shoot looks at the shoot.
	Shoot func(ctx context.Context) (*gardencorev1beta1.Shoot, error)
	// Duration is how long the load lasts; zero for no limit.
	Duration time.Duration
	// UntilComplete ends the load After a migration has ended. One that has not begun yet is waited for.
	UntilComplete bool
	After         time.Duration
	// Every is the time between two lines about the progress.
	Every time.Duration
	// Publish takes the counts, for others to show.
	Publish func(summary.Probe) error
	// Clock is the clock, Zone the time zone in which it is written; nil for UTC.
	Clock clock.WithTicker
	Zone  *time.Location
	// Out takes the progress.
	Out io.Writer
}

// Do runs until the duration has passed, the migration is complete, or the context ends: that is how one stops it. The
// namespace of the load is removed in any case.
func (r ProbeRun) Do(ctx context.Context) (*probe.Result, error) {
	if err := r.Load.Start(ctx); err != nil {
		return nil, fmt.Errorf("failed to start the load: %w", err)
	}
	begin := r.Clock.Now()
	r.line("the load runs in namespace %s", r.Load.Namespace())
	r.follow(ctx, begin)

	r.line("the load ends; the acknowledged writes are verified, and the namespace is removed")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	result, err := r.Load.Stop(ctx)
	if err != nil {
		err = fmt.Errorf("failed to end the load; make sure that namespace %s is gone: %w", r.Load.Namespace(),
			err)
	}
	return result, err
}

func (r ProbeRun) follow(ctx context.Context, begin time.Time) {
	var (
		ticker   = r.Clock.NewTicker(publishInterval)
		follower = follower{begun: begin}
		reported = begin
		problem  string
	)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		now := r.Clock.Now()

		snapshot := r.Load.Snapshot()
		// Neither the file nor the garden is what the probe is about: a problem with them is reported once.
		err := r.Publish(Counts(snapshot, r.Load.Namespace(), begin, now))
		if shoot, shootErr := r.Shoot(ctx); shootErr == nil {
			if phase, line := follower.observe(summary.Summarize(shoot, now), now); line != "" {
				if phase != "" {
					r.Load.Mark(phase)
				}
				r.line("%s", line)
			}
		} else if ctx.Err() == nil {
			err = errors.Join(err, shootErr)
		}
		if err != nil && err.Error() != problem {
			problem = err.Error()
			r.line("%s", problem)
		}

		if now.Sub(reported) >= r.Every {
			reported = now
			r.line("%s", Progress(snapshot))
		}
		if r.Duration > 0 && now.Sub(begin) >= r.Duration {
			return
		}
		if r.UntilComplete && !follower.ended.IsZero() && now.Sub(follower.ended) >= r.After {
			return
		}
	}
}

func (r ProbeRun) line(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Out, "%s  %s\n", view.Options{Zone: r.Zone}.Clock(r.Clock.Now()), fmt.Sprintf(format, args...))
}

// Counts returns what is published about a running probe.
func Counts(s probe.Snapshot, namespace string, begin, now time.Time) summary.Probe {
	return summary.Probe{
		Started: metav1.NewTime(begin), Updated: metav1.NewTime(now), Namespace: namespace,
		Writes: s.Writes, WritesFailed: s.WritesFailed, Reads: s.Reads, ReadsFailed: s.ReadsFailed,
		WatchEvents: s.WatchEvents, ConnectionErrors: s.RawConnectionErrors,
		LongestWriteGapMs:         s.LongestWriteGap.Milliseconds(),
		BaselineLongestWriteGapMs: s.BaselineLongestWriteGap.Milliseconds(),
		SinceLastWriteMs:          s.SinceLastWrite.Milliseconds(),
	}
}

// Progress writes counts as a line.
func Progress(s probe.Snapshot) string {
	return fmt.Sprintf("%d writes (%d failed), %d reads (%d failed), %d watch events, %d connection errors",
		s.Writes, s.WritesFailed, s.Reads, s.ReadsFailed, s.WatchEvents, s.RawConnectionErrors)
}

// follower notices the phases of a migration.
type follower struct {
	begun   time.Time
	running bool
	ended   time.Time
	step    string
}

// observe returns the phase that begins now, if one does, and what is worth a line.
func (f *follower) observe(s summary.Summary, now time.Time) (probe.Phase, string) {
	switch {
	case !f.running && !s.State.Final():
		f.running, f.ended, f.step = true, time.Time{}, s.Step
		return probe.PhaseDuring, "a live migration is in flight: " + s.String()
	case f.running && s.State.Final():
		f.running, f.ended = false, now
		return probe.PhaseAfter, "the live migration has ended: " + s.String()
	case f.running && s.Step != f.step:
		f.step = s.Step
		return "", s.String()
	}
	return "", ""
}
