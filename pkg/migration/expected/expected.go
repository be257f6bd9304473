// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package expected tells how long a migration takes, and how long it still does. A step takes as long as its work and
// the times for which it waits. The work is learned from past migrations of the same garden: of the same shoot if there
// are any, else between the same seeds, else of all. The waits are those of this migration: the TTL of its DNS records
// and the configuration of its agents. Only where nothing was ever recorded, the work is that of a measurement on the
// landscape of the repository, with what the size of the database and the distance between the seeds add to it.
package expected

import (
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

// defaultTTL is that of Gardener's records (controllers.shoot.dnsEntryTTLSeconds of the gardenlet).
const defaultTTL = 2 * time.Minute

// DefaultWaits returns those of an agent without configuration.
func DefaultWaits() *seedfacts.Waits {
	return &seedfacts.Waits{DNSMargin: seconds(30), ShortTTL: seconds(30),
		RecordTTL: metav1.Duration{Duration: defaultTTL}, Drain: seconds(70), DrainTimeout: seconds(60),
		GatewayDrain: seconds(60)}
}

// Facts are what the duration of one migration depends on. All of them are optional; where one is missing, what past
// migrations show or the defaults of Gardener and of livecpm stand in.
type Facts struct {
	// UID is that of the Shoot, Workers the number of its worker pools.
	UID     types.UID
	Workers int
	// Source and Destination are the seeds.
	Source, Destination string
	// TTL is the longest one of the records that lead to the shoot; zero if it is not known.
	TTL time.Duration
	// SourceWaits and DestinationWaits are the waits of the agents; nil if they are not known.
	SourceWaits, DestinationWaits *seedfacts.Waits
	// GatewayKeepsTLS reports that the ingress gateways of the source pass TLS on, so that they cannot drain clients.
	GatewayKeepsTLS bool
	// Database is the size of the largest etcd database in bytes; zero if it is not known.
	Database int64
	// Rate is how many bytes per second come through to the destination; zero if it is not known.
	Rate int64
	// RoundTrips are the round trips between seeds, as probes have measured them.
	RoundTrips map[Pair]time.Duration
	// Past are the migrations that were recorded.
	Past []history.Record

	// told is the wait for caches that the agent tells; nil if it does not.
	told *waits.Wait
}

// Pair is a pair of seeds, whatever the direction.
type Pair struct{ first, second string }

// Between returns the pair of two seeds.
func Between(a, b string) Pair { return Pair{min(a, b), max(a, b)} }

// Of returns how long the migration is expected to take at the given moment. It returns nil for one that is not under
// way, or that is aborted.
func Of(migration summary.Summary, facts Facts, now time.Time) *summary.Expectation {
	if migration.State.Final() || migration.State == summary.Aborting {
		return nil
	}
	out := &summary.Expectation{}
	done := 0.0
	for _, step := range facts.Steps() {
		i := slices.IndexFunc(migration.Steps, func(s summary.Step) bool { return s.Condition == step.Condition })
		if i >= 0 {
			shown := migration.Steps[i]
			if wait, ok := waits.Told(shown.Reason, shown.Message); ok && shown.Current && wait.For == waits.Caches {
				// What the agent waits for is better than what was asked from here.
				facts.told = &wait
				known, _ := steps.Get(gardencorev1beta1.ConditionType(step.Condition))
				step = facts.step(known)
			}
			var late bool
			step.RemainingSeconds, late = remaining(shown, step, now)
			out.Late = out.Late || late
		}
		done += max(0, step.Seconds-step.RemainingSeconds)
		out.Seconds += step.Seconds
		out.RemainingSeconds += step.RemainingSeconds
		out.Steps = append(out.Steps, step)
	}
	out.Basis = weakest(out.Steps)
	if out.Seconds > 0 {
		// All is done only when the migration has succeeded.
		out.Progress = min(99, int32(100*done/out.Seconds))
	}
	return out
}

// Steps returns what is expected of each step, before any of them has begun.
func (f Facts) Steps() []summary.ExpectedStep {
	var out []summary.ExpectedStep
	for _, step := range steps.Table() {
		out = append(out, f.step(step))
	}
	return out
}

// Plan returns what is expected of a migration that has not begun.
func (f Facts) Plan() summary.Expectation {
	out := summary.Expectation{Steps: f.Steps()}
	for _, step := range out.Steps {
		out.Seconds += step.Seconds
	}
	out.RemainingSeconds, out.Basis = out.Seconds, weakest(out.Steps)
	return out
}

func (f Facts) step(step steps.Step) summary.ExpectedStep {
	wait := f.wait(step)
	work, basis, samples := f.work(step, wait)
	total := (work + wait).Round(time.Second).Seconds()
	return summary.ExpectedStep{Condition: step.String(), Seconds: total, RemainingSeconds: total,
		WaitSeconds: wait.Round(time.Second).Seconds(), Basis: basis, Samples: samples}
}

// order is that of the bases, the best first.
var order = []summary.Basis{summary.BasisShoot, summary.BasisSeeds, summary.BasisGarden, summary.BasisBenchmark}

func weakest(all []summary.ExpectedStep) summary.Basis {
	worst := 0
	for _, step := range all {
		worst = max(worst, slices.Index(order, step.Basis))
	}
	return order[worst]
}

// stillToCome is which part of a step's work comes after a wait in it, at least and at most. Most of what step 6 does
// is to move members, after its waits; step 7 waits before it does anything, or after its controllers have stopped.
var stillToCome = map[waits.For]struct{ least, most float64 }{
	waits.Caches:  {0.5, 1},
	waits.Drain:   {0.5, 1},
	waits.Clients: {1, 1},
	waits.Gateway: {0.25, 1},
}

// remaining returns how long a step still takes, in seconds, and whether it takes longer than expected.
func remaining(shown summary.Step, step summary.ExpectedStep, now time.Time) (float64, bool) {
	elapsed, begun := shown.Elapsed()
	switch {
	case shown.Finished():
		return 0, false
	case !shown.Current || !begun:
		return step.Seconds, false
	}
	left := step.Seconds - elapsed.Seconds()
	if wait, ok := waits.Told(shown.Reason, shown.Message); ok {
		// A wait says itself when it ends, so a step that was slow before it is not late in it.
		work := step.Seconds - step.WaitSeconds
		due := wait.Left(now).Seconds() + after(wait, step)
		bounds := stillToCome[wait.For]
		return min(max(left, due+bounds.least*work), due+bounds.most*work), false
	}
	return max(0, left), left < 0
}

// after returns how long the step waits after the wait, in seconds: after that for caches comes that for clients.
func after(wait waits.Wait, step summary.ExpectedStep) float64 {
	if wait.For != waits.Caches {
		return 0
	}
	return max(0, step.WaitSeconds-wait.Total.Seconds())
}
