// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"errors"
	"time"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/outlook"
)

// progress prints what happens, with the time since the run began, and how long it still takes.
type progress struct {
	screen  *outlook.Screen
	tracker *outlook.Tracker
	begun   time.Time
}

func newProgress(screen *outlook.Screen, tracker *outlook.Tracker) *progress {
	return &progress{screen: screen, tracker: tracker, begun: time.Now()}
}

// show begins to say how long the parts still take. It returns what ends that.
func (p *progress) show(ctx context.Context, cfg *config.Config, parts []outlook.Part) (stop func(), err error) {
	if p.tracker == nil {
		if p.tracker, _, _, err = outlook.Track(ctx, p.begun, parts,
			outlook.Place{Repo: cfg.Repo, State: cfg.State, Shoot: cfg.Shoot, More: components(cfg)}); err != nil {
			return nil, err
		}
	}
	return outlook.Show(p.screen, p.tracker), nil
}

func (p *progress) elapsed() time.Duration {
	if p.tracker != nil {
		return p.tracker.Elapsed()
	}
	return time.Since(p.begun)
}

func (p *progress) report(format string, args ...any) {
	p.screen.Line("%6.1fs  "+format, append([]any{p.elapsed().Seconds()}, args...)...)
}

// begin announces a part and returns what to call with its outcome.
func (p *progress) begin(part outlook.Part) func(error) {
	began := time.Now()
	// A component that is there already is not worth a line; one that is not says so itself.
	silent := part.Component != ""
	if !silent {
		p.report("%s", part.Title)
	}
	if p.tracker != nil {
		p.tracker.Begin(part.Name)
	}
	return func(err error) {
		outcome := "done"
		if errors.Is(err, context.Canceled) {
			outcome = "interrupted"
		} else if err != nil {
			outcome = "FAILED"
		} else if p.tracker != nil {
			p.tracker.End(part.Name)
		}
		if silent && err == nil {
			return
		}
		p.report("%s: %s (%.1f s)", outcome, part.Title, time.Since(began).Seconds())
	}
}
