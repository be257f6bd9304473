// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Reasons of the events at Shoots.
const (
	// EventMoveStarted reports that a drain moves the Shoot.
	EventMoveStarted = "DrainMoveStarted"
	// EventMoveEnded reports that this move is over.
	EventMoveEnded = "DrainMoveEnded"
	// EventMoveRefused reports that the garden did not accept the start.
	EventMoveRefused = "DrainMoveRefused"

	actionMove = "DrainSeed"
	// maxMessage bounds the annotation and the events with a refusal.
	maxMessage = 500
)

// start starts moves. Each is assessed again, because those before it count by now. If the result differs from the
// plan, the move is not started, and the next plan uses the new result. A shoot that has changed since it was read, for
// example because it wakes up, is not moved either: the write fails.
func (r *Reconciler) start(ctx context.Context, l *look, starts []drain.Start) error {
	var errs []error
	for _, start := range starts {
		if !r.changed(ctx, l, start) {
			errs = append(errs, l.failed(r.startOne(ctx, l, start)))
		}
	}
	return errors.Join(errs...)
}

// changed assesses the shoot once more, and reports whether the result differs from what was planned.
func (r *Reconciler) changed(ctx context.Context, l *look, start drain.Start) bool {
	now := r.assess(ctx, l, &l.shoots[l.index[start.Key]])
	if now.Waits || now.Destination != start.Destination || now.Way != start.Way {
		return true
	}
	end := cmp.Or(now.Final, now.Destination)
	return end != cmp.Or(start.Final, start.Destination)
}

// startOne starts one move with a single write: the intent, what the drain has to know later, and the new seed name.
// So there is no moment at which a restart would find half of it. The write goes through shoots/binding, which is the
// only way to change the seed name and takes annotations as well.
func (r *Reconciler) startOne(ctx context.Context, l *look, start drain.Start) error {
	before := &l.shoots[l.index[start.Key]]
	shoot := r.withStart(before, start, r.attempts(l, start))
	if start.Way.IsClassic() {
		steps.RemoveIntent(shoot)
	} else {
		steps.Intend(shoot)
	}
	// The next move is announced again.
	delete(shoot.Annotations, drain.AnnotationAnnouncedBy)
	delete(shoot.Annotations, drain.AnnotationAnnouncedAt)
	// Left over from a migration that was aborted; it would abort this one.
	delete(shoot.Annotations, steps.AnnotationAbort)
	shoot.Spec.SeedName = &start.Destination

	err := r.Client.SubResource("binding").Patch(ctx, shoot, unlessChanged(before))
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return r.recordRefusal(ctx, l, start, err)
	case err != nil:
		return fmt.Errorf("failed to bind Shoot %s to seed %s: %w", start.Key, start.Destination, err)
	}
	r.put(l, shoot)
	r.memory.started++
	metrics.DrainStarted(start.Drain, string(start.Way))
	r.log(ctx)("Started a move", "shoot", start.Key, "source", start.Source, "destination", start.Destination,
		"way", start.Way, "drain", start.Drain, "final", start.Final)
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeNormal, EventMoveStarted, actionMove,
		"The drain of seed %s moves the control plane to seed %s%s (%s)", start.Drain, start.Destination,
		onTheWay(start), start.Way)
	return nil
}

// onTheWay tells of which chain the move is one; empty if it is the only one.
func onTheWay(start drain.Start) string {
	if start.Final == "" {
		return ""
	}
	return fmt.Sprintf(", migration %d on the way to seed %s", start.Hop, start.Final)
}

// attempts returns how often the start was tried, with this time: those that the garden refused since the drain was
// last resumed count.
func (r *Reconciler) attempts(l *look, start drain.Start) int {
	seen := drain.ShootOf(&l.shoots[l.index[start.Key]])
	if seen.StartedBy == start.Drain && !seen.StartedAt.Before(r.resumedAt(l, start.Drain)) &&
		seen.Result == drain.Refused {
		return seen.Attempts + 1
	}
	return 1
}

// withStart returns a copy of the Shoot with what the drain has to know later about the start.
func (r *Reconciler) withStart(
	before *gardencorev1beta1.Shoot, start drain.Start, attempts int,
) *gardencorev1beta1.Shoot {
	shoot := before.DeepCopy()
	for key, value := range map[string]string{
		drain.AnnotationStartedBy:   start.Drain,
		drain.AnnotationStartedAt:   drain.FormatTime(r.Clock.Now()),
		drain.AnnotationDestination: start.Destination,
		drain.AnnotationWay:         string(start.Way),
		drain.AnnotationAttempts:    strconv.Itoa(attempts),
	} {
		metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, key, value)
	}
	for _, key := range []string{drain.AnnotationResult, drain.AnnotationEndedAt, drain.AnnotationMessage,
		drain.AnnotationFinal, drain.AnnotationFrom, drain.AnnotationHop} {
		delete(shoot.Annotations, key)
	}
	if start.Final != "" {
		shoot.Annotations[drain.AnnotationFinal] = start.Final
		shoot.Annotations[drain.AnnotationFrom] = start.Source
		shoot.Annotations[drain.AnnotationHop] = strconv.Itoa(start.Hop)
	}
	return shoot
}

// recordRefusal records at the Shoot that the garden did not accept the start, and why.
func (r *Reconciler) recordRefusal(ctx context.Context, l *look, start drain.Start, cause error) error {
	before := &l.shoots[l.index[start.Key]]
	message := conditions.Cut(cause.Error(), maxMessage)
	refused := r.withStart(before, start, r.attempts(l, start))
	refused.Annotations[drain.AnnotationResult] = string(drain.Refused)
	refused.Annotations[drain.AnnotationEndedAt] = drain.FormatTime(r.Clock.Now())
	refused.Annotations[drain.AnnotationMessage] = message
	if err := r.Client.Patch(ctx, refused, unlessChanged(before)); err != nil {
		return fmt.Errorf("failed to record at Shoot %s that the move to seed %s was refused (%s): %w", start.Key,
			start.Destination, message, err)
	}
	r.put(l, refused)
	metrics.DrainEnded(start.Drain, string(drain.Refused))
	r.log(ctx)("The garden refused a move", "shoot", start.Key, "source", start.Source, "destination",
		start.Destination, "cause", message)
	r.Recorder.Eventf(refused, nil, corev1.EventTypeWarning, EventMoveRefused, actionMove,
		"The garden refused the move to seed %s: %s", start.Destination, message)
	return nil
}

// unlessChanged makes a patch of what differs from the Shoot, which fails if somebody else has written meanwhile.
func unlessChanged(before *gardencorev1beta1.Shoot) client.Patch {
	return client.MergeFromWithOptions(before.DeepCopy(), client.MergeFromWithOptimisticLock{})
}

// recordEnds records at the Shoots that moves are over, and when: pause and circuit breaker go by it.
func (r *Reconciler) recordEnds(ctx context.Context, l *look) error {
	var errs []error
	for i := range l.shoots {
		seen := drain.ShootOf(&l.shoots[i])
		result, ended := seen.Ended()
		if !ended {
			continue
		}
		before := &l.shoots[i]
		shoot := before.DeepCopy()
		shoot.Annotations[drain.AnnotationResult] = string(result)
		shoot.Annotations[drain.AnnotationEndedAt] = drain.FormatTime(r.Clock.Now())
		if err := r.Client.Patch(ctx, shoot, unlessChanged(before)); err != nil {
			if err := l.failed(err); err != nil {
				errs = append(errs, fmt.Errorf("failed to record at Shoot %s that its move is over: %w", seen.Key, err))
			}
			continue
		}
		r.put(l, shoot)
		metrics.DrainEnded(seen.StartedBy, string(result))
		r.log(ctx)("A move is over", "shoot", seen.Key, "source", seen.StartedBy, "destination", seen.Destination,
			"result", result)
		kind := corev1.EventTypeNormal
		if result.Failed() {
			kind = corev1.EventTypeWarning
		}
		rests := ""
		if after := drain.ShootOf(shoot); after.Between() {
			rests = fmt.Sprintf("; it is in seed %s, on its way to seed %s", after.Status, after.Final)
		}
		r.Recorder.Eventf(shoot, nil, kind, EventMoveEnded, actionMove,
			"The move of the control plane by the drain of seed %s is over: %s%s", seen.StartedBy, result, rests)
	}
	return errors.Join(errs...)
}

// put lets the rest of this look, and those that follow, see what was written.
func (r *Reconciler) put(l *look, shoot *gardencorev1beta1.Shoot) {
	r.memory.ahead.keep(shoot)
	l.shoots[l.index[drain.Key{Namespace: shoot.Namespace, Name: shoot.Name}]] = *shoot
}
