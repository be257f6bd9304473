// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
)

const (
	// EventMoveAnnounced at a Shoot tells that a drain is about to move it, and when at the earliest.
	EventMoveAnnounced = "DrainMoveAnnounced"
	// EventNoticeFailed at a Seed tells that the webhook could not be told about a move.
	EventNoticeFailed = "DrainNoticeFailed"
)

// Notices say how moves are announced.
type Notices struct {
	// Lead is the least time between the announcement of a move and its begin.
	Lead time.Duration
	// Notifier is told about each move; nil if nobody is.
	Notifier Notifier
	// RetryAfter is the time between two attempts to tell it.
	RetryAfter time.Duration
	// ContinueAfter is after how many failures in a row moves begin although it was not told; zero if they never do.
	ContinueAfter int
}

// noticed is how the Notifier has answered. It is lost with the process: then it is asked again.
type noticed struct {
	// failures is how often it has failed in a row, problem why the last time.
	failures int
	problem  string
	// heldUntil is when it is tried again; zero if moves begin without it.
	heldUntil time.Time
}

// notice tells the plan how moves are announced, and whether they can be.
func (r *Reconciler) notice() drain.Notice {
	out := drain.Notice{Wanted: r.Notices.Lead > 0 || r.Notices.Notifier != nil, Lead: r.Notices.Lead}
	if noticed := r.memory.noticed; !noticed.heldUntil.IsZero() {
		out.Problem, out.HeldUntil = noticed.problem, noticed.heldUntil
	}
	return out
}

// announce announces moves: to the Notifier first, then at the Shoot, where it outlives the process. After a failure of
// the Notifier the others wait for the next attempt, so that a pass waits for one timeout at most.
func (r *Reconciler) announce(ctx context.Context, l *look, announcements []drain.Announcement) error {
	var errs []error
	for _, announcement := range announcements {
		if r.changed(ctx, l, announcement.Start) {
			continue
		}
		if !r.tell(ctx, l, announcement) {
			break
		}
		errs = append(errs, l.failed(r.recordAnnouncement(ctx, l, announcement)))
	}
	return errors.Join(errs...)
}

// tell tells the Notifier about a move. It returns whether the move is to begin.
func (r *Reconciler) tell(ctx context.Context, l *look, announcement drain.Announcement) bool {
	if r.Notices.Notifier == nil {
		return true
	}
	var (
		shoot = &l.shoots[l.index[announcement.Key]]
		seen  = drain.ShootOf(shoot)
		now   = r.Clock.Now()
	)
	err := r.Notices.Notifier.Notify(ctx, Notice{
		ID: fmt.Sprintf("%s-%d-%d", shoot.UID, r.resumedAt(l, announcement.Drain).Unix(),
			max(seen.StartedAt.Unix(), 0)),
		Time: now.UTC(), Namespace: seen.Namespace, Name: seen.Name, Purpose: string(seen.Purpose),
		Seed: announcement.Source, Destination: announcement.Destination, Way: announcement.Way,
		FinalDestination: announcement.Final, NotBefore: announcement.NotBefore.UTC(),
	})
	if err == nil {
		r.memory.noticed = noticed{}
		return true
	}
	failures := r.memory.noticed.failures + 1
	r.memory.noticed = noticed{failures: failures, problem: conditions.Cut(err.Error(), maxMessage)}
	goOn := r.Notices.ContinueAfter > 0 && failures >= r.Notices.ContinueAfter
	consequence := "the move begins without it"
	if !goOn {
		r.memory.noticed.heldUntil = now.Add(r.Notices.RetryAfter)
		consequence = "it is tried again at " + drain.FormatTime(r.memory.noticed.heldUntil)
	}
	r.log(ctx)("A move could not be announced", "shoot", announcement.Key, "failures", failures, "cause",
		r.memory.noticed.problem, "continues", goOn)
	if seed := l.seed(announcement.Drain); seed != nil {
		r.Recorder.Eventf(seed, nil, corev1.EventTypeWarning, EventNoticeFailed, actionMove,
			"The move of shoot %s could not be announced, %s: %s", announcement.Key, consequence,
			r.memory.noticed.problem)
	}
	return goOn
}

// recordAnnouncement records at the Shoot that its move is announced.
func (r *Reconciler) recordAnnouncement(ctx context.Context, l *look, announcement drain.Announcement) error {
	before := &l.shoots[l.index[announcement.Key]]
	shoot := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, drain.AnnotationAnnouncedBy, announcement.Drain)
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, drain.AnnotationAnnouncedAt, drain.FormatTime(r.Clock.Now()))
	if err := r.Client.Patch(ctx, shoot, unlessChanged(before)); err != nil {
		return fmt.Errorf("failed to record at Shoot %s that its move is announced: %w", announcement.Key, err)
	}
	r.put(l, shoot)
	r.log(ctx)("Announced a move", "shoot", announcement.Key, "source", announcement.Source, "destination",
		announcement.Destination, "way", announcement.Way, "notBefore", announcement.NotBefore)
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeNormal, EventMoveAnnounced, actionMove,
		"The drain of seed %s moves the control plane to seed %s%s (%s) at %s at the earliest", announcement.Drain,
		announcement.Destination, onTheWay(announcement.Start), announcement.Way,
		drain.FormatTime(announcement.NotBefore))
	return nil
}
