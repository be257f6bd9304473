// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// request is something that a person asks for: by the plugin, and if that refuses it, by the annotations that the
// plugin would set (kubectl annotate), which the gate judges.
type request struct {
	name   string
	plugin func(context.Context, steer.Steerer, *gardencorev1beta1.Shoot) (steer.Result, error)
	raw    map[string]string
}

var (
	pause = request{name: "a person pauses before the next step", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Pause(ctx, shoot, nil)
	}}
	resume = request{name: "a person resumes", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Resume(ctx, shoot)
	}}
	retry = request{name: "a person retries the step", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Retry(ctx, shoot)
	}, raw: map[string]string{v1beta1constants.GardenerOperation: v1beta1constants.ShootOperationRetry}}
	abort = request{name: "a person aborts", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Abort(ctx, shoot)
	}, raw: map[string]string{steps.AnnotationAbort: "true"}}
	abandon = request{name: "a person aborts and abandons the destination", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Abandon(ctx, shoot, seedNames[to])
	}, raw: map[string]string{steps.AnnotationAbort: "true", steps.AnnotationAbandon: seedNames[to]}}
	abandonSource = request{name: "a person abandons the source", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.AbandonSource(ctx, shoot, seedNames[from])
	}, raw: map[string]string{steps.AnnotationAbandonSource: seedNames[from]}}
	stay = request{name: "a person lets the shoot stay", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Stay(ctx, shoot)
	}}
	start = request{name: "a person starts again", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Start(ctx, shoot, steer.Start{Destination: seedNames[to]})
	}}
	confirm = request{name: "a person confirms the versions", plugin: func(
		ctx context.Context, s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.ConfirmVersions(ctx, shoot, skewedVersions[:])
	}}
	force = request{name: "a person asks to move etcd first (force-shrink)",
		raw: map[string]string{steps.AnnotationForceShrink: "true"}}
	forceNot = request{name: "a person takes back to move etcd first",
		raw: map[string]string{steps.AnnotationForceShrink: ""}}
	abortNot   = request{name: "a person takes the abort back", raw: map[string]string{steps.AnnotationAbort: ""}}
	abandonNot = request{name: "a person takes back that the destination is lost",
		raw: map[string]string{steps.AnnotationAbandon: ""}}
	abandonSourceNot = request{name: "a person takes back that the source is lost",
		raw: map[string]string{steps.AnnotationAbandonSource: ""}}
	intentNot = request{name: "a person removes the intent annotation",
		raw: map[string]string{steps.AnnotationIntent: ""}}
	cleared = request{name: "a person removes the annotation of what was left behind",
		raw: map[string]string{steps.AnnotationLeftBehind: ""}}
)

// anything are all requests that a person may make at any time, whether they make sense or not.
var anything = []request{pause, resume, retry, abort, abandon, abandonSource, stay, start, confirm, force, forceNot,
	abortNot, abandonNot, abandonSourceNot, intentNot}

// made returns the event of a request, and false if it was refused or changes nothing.
func (w *World) made(r request) (event, bool) {
	t := &turn{world: w.copy(), by: nobody}
	api := &garden{turn: t}
	refused := true
	if r.plugin != nil {
		steerer := steer.Steerer{Client: api, Clock: testclock.NewFakePassiveClock(now)}
		_, err := r.plugin(context.Background(), steerer, w.shoot.DeepCopy())
		refused = err != nil
	}
	if refused && r.raw != nil {
		refused = api.annotate(r.raw) != nil
	}
	if refused || canonical(t.world.shoot) == canonical(w.shoot) {
		return event{}, false
	}
	return event{name: r.name, next: w.after(t)}, true
}

// requestEvents are those that cost a request. The gate is in force when somebody removes what only the gate keeps:
// otherwise two things have gone wrong that nobody can make good.
func (w *World) requestEvents() []event {
	others := w.remedies()
	if w.gateOpen {
		others = append(others, intentNot, abortNot, forceNot, force, abandonNot, abort, abandon)
	}
	if w.lost[to] {
		// docs/operations/force-shrink.md says never: it takes the abort away that is left.
		others = append(others, force)
	}
	var out []event
	for _, r := range anything {
		if slices.ContainsFunc(others, func(other request) bool { return other.name == r.name }) {
			continue
		}
		if e, possible := w.made(r); possible {
			e.fault, e.cost.requests = true, 1
			out = append(out, e)
		}
	}
	return out
}

// named are the events of persons who do what the state names. They cost nothing, and the way to an end may rely on
// them.
func (w *World) named() []event {
	var out []event
	for _, r := range w.remedies() {
		if e, possible := w.made(r); possible {
			if r.name == cleared.name {
				// The seed was cleaned up by hand, or is a new one.
				e.next = w.after(&turn{by: nobody, world: e.next.copy().renewed(to)})
			}
			e.person = true
			out = append(out, e)
		}
	}
	shows := w.shows()
	mend := func(faulty, isNamed bool, name string, change func(*World)) {
		if faulty {
			e := w.changed(name, change)
			e.fault, e.person = !isNamed, isNamed
			out = append(out, e)
		}
	}
	mend(w.gateOpen, shows[steps.ReasonGateNotInForce], "the gate is put back", func(w *World) { w.gateOpen = false })
	mend(w.skewed, shows[steps.ReasonVersionSkew], "the versions are the same again",
		func(w *World) { w.skewed = false })
	mend(w.unhealthy, shows[steps.ReasonEtcdNotHealthy], "all etcd members are healthy again",
		func(w *World) { w.unhealthy = false })
	return out
}

// renewed returns the world with an empty seed of the same name.
func (w *World) renewed(seed int) *World {
	w.running[seed], w.voters[seed], w.cut[seed], w.lost[seed] = 0, 0, false, false
	w.prepared, w.drained = false, false
	return w
}

// shows returns the reasons that a person sees: that of the condition which tells most, and the one that its message
// begins with.
func (w *World) shows() map[steps.Reason]bool {
	seen := summary.Summarize(w.shoot, now)
	out := map[steps.Reason]bool{steps.Reason(seen.Reason): true}
	out[hiddenReason(gardencorev1beta1.Condition{Reason: seen.Reason, Message: seen.Message})] = true
	return out
}

// remedies are the requests that the state names: by the reason that it shows, by the command that the plugin proposes
// in this state, or because it is long ago that the agent was heard of whose turn it is.
func (w *World) remedies() []request {
	var (
		out        []request
		seen       = summary.Summarize(w.shoot, now)
		conditions = steps.Conditions(w.shoot)
		shows      = w.shows()
	)
	switch seen.State {
	case summary.Paused:
		out = append(out, resume)
	case summary.Aborted:
		out = append(out, stay)
	}
	if shows[steps.ReasonVersionSkew] && steps.PastReturn(w.shoot) {
		out = append(out, confirm)
	}
	silent := func(role steps.Role) bool {
		at := steps.SeenAt(conditions, role)
		return at.IsZero() || old(at)
	}
	if w.lost[to] && silent(steps.Destination) && steps.AbortPossible(w.shoot) {
		// The page of an abort: the plain abort if nothing was begun there, otherwise without the destination.
		if steps.Withdrawn(conditions) {
			out = append(out, abort)
		} else {
			out = append(out, abandon)
		}
	}
	if w.lost[from] && silent(steps.Source) && steps.AbandonSourcePossible(conditions) {
		out = append(out, abandonSource)
	}
	if shows[steps.ReasonAbandoningSource] && !w.lost[from] {
		// The message says so.
		out = append(out, abandonSourceNot)
	}
	if _, left := steps.LeftBehindIn(w.shoot); left && w.lost[to] && !steps.Initialized(conditions) {
		out = append(out, cleared)
	}
	return out
}
