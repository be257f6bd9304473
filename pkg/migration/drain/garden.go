// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"strconv"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Garden is what decisions are made from: all seeds and shoots of a garden at one moment, and what may be done to them.
type Garden struct {
	// Now is the time of the look.
	Now time.Time
	// Budget is what must not be exceeded.
	Budget Budget
	// Notice says how moves are announced.
	Notice Notice
	// Seeds are all seeds.
	Seeds []Seed
	// Shoots are all shoots of the garden, not only those of seeds that are drained: every move counts.
	Shoots []Shoot
	// Assess finds a destination for a shoot that is to leave its seed. It is asked for those only that nothing else
	// holds.
	Assess func(Shoot) Assessment
}

// Budget bounds what a drain does.
type Budget struct {
	// PerSource, PerDestination and Total are how many shoots may be on their way at once: out of one seed, into one
	// seed, and in the garden.
	PerSource, PerDestination, Total int
	// Pause is the time between the end of a move and the next start from the same seed.
	Pause time.Duration
	// Failures is after how many failures in a row nothing more is started from a seed.
	Failures int
	// FailurePercent is which share of the moves that have ended may have failed, in percent; zero for any.
	FailurePercent int
	// Attempts is how often the start of one shoot is tried before it is blocked, RetryAfter the time in between.
	Attempts   int
	RetryAfter time.Duration
}

// Seed is a seed as a drain sees it.
type Seed struct {
	// Name is its name.
	Name string
	// Draining reports that the drain is asked for.
	Draining bool
	// Marked reports that the drain keeps the scheduler away from the seed, which it does from its begin until it is
	// cancelled.
	Marked bool
	// Settings say when moves may begin.
	Settings
	// StartedAt is when the drain began, ResumedAt when it was last resumed.
	StartedAt, ResumedAt time.Time
}

// Permits are the ways other than the live one that the operator of a seed permits.
type Permits struct {
	// Fallback reports that shoots which cannot go live may go classically.
	Fallback bool
	// HibernatedStay reports that shoots do not go classically while they are hibernated.
	HibernatedStay bool
	// Hops is how many live migrations one after the other may move a shoot; zero is one.
	Hops int
}

// SeedOf returns what a drain sees of the Seed.
func SeedOf(seed *gardencorev1beta1.Seed) Seed {
	_, marked := seed.Annotations[AnnotationSchedulingVisible]
	return Seed{
		Name:      seed.Name,
		Draining:  Requested(seed),
		Marked:    marked,
		Settings:  SettingsOf(seed.Annotations),
		StartedAt: timeOf(seed.Annotations, AnnotationStartedAt),
		ResumedAt: timeOf(seed.Annotations, AnnotationResumedAt),
	}
}

// Requested reports whether the Seed is to be drained.
func Requested(seed *gardencorev1beta1.Seed) bool { return isTrue(seed.Annotations, AnnotationDrain) }

// Key identifies a shoot.
type Key struct {
	// Namespace and Name are those of the Shoot.
	Namespace, Name string
}

// String returns namespace and name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Shoot is a shoot as a drain sees it.
type Shoot struct {
	Key
	// Spec and Status are spec.seedName and status.seedName.
	Spec, Status string
	// Purpose is spec.purpose.
	Purpose gardencorev1beta1.ShootPurpose
	// CreatedAt is when the Shoot was created.
	CreatedAt time.Time
	// Deleting reports that it is being deleted.
	Deleting bool
	// OptedOut and Ignored tell that its owner, or the operator of the garden, does not want it to be moved.
	OptedOut, Ignored bool
	// Intended reports that it carries the intent annotation of a live migration.
	Intended bool
	// WithGap reports that it has one etcd member, and that its users have agreed to the gap of a live migration.
	WithGap bool
	// Aborted reports that its live migration was aborted and that the seed names still differ.
	Aborted bool
	// LateSince is since when the current step of its live migration is past its deadline.
	LateSince time.Time
	// Restoring reports that both seed names are the destination, and that its gardenlet has not restored the control
	// plane yet: Gardener changes status.seedName when the source is done with it.
	Restoring bool
	// FailedSince is since when Gardener does not repeat the migration or the restoration any more.
	FailedSince time.Time

	// The rest is about the last move that a drain has started.

	// StartedBy is the seed whose drain it was, Destination where to and Way how.
	StartedBy, Destination string
	Way                    Way
	// StartedAt and EndedAt are when.
	StartedAt, EndedAt time.Time
	// Attempts is how often it was started.
	Attempts int
	// Result is empty while it continues.
	Result Result
	// Message tells why a start was refused.
	Message string
	// Final is where the chain of migrations ends of which that move is one, From the seed that it leaves, and Hop its
	// number in the chain; empty and zero if it is the only one.
	Final, From string
	Hop         int

	// AnnouncedBy is the seed whose drain has announced the next move, AnnouncedAt when.
	AnnouncedBy string
	AnnouncedAt time.Time
}

// ShootOf returns what a drain sees of the Shoot.
func ShootOf(shoot *gardencorev1beta1.Shoot) Shoot {
	out := Shoot{
		Key:       Key{Namespace: shoot.Namespace, Name: shoot.Name},
		CreatedAt: shoot.CreationTimestamp.Time,
		Deleting:  shoot.DeletionTimestamp != nil,
		OptedOut:  isTrue(shoot.Annotations, AnnotationOptOut),
		Ignored:   isTrue(shoot.Annotations, v1beta1constants.ShootIgnore),
		Intended:  steps.Intended(shoot),
		WithGap:   steps.WithGap(shoot),

		StartedBy:   shoot.Annotations[AnnotationStartedBy],
		Destination: shoot.Annotations[AnnotationDestination],
		Way:         Way(shoot.Annotations[AnnotationWay]),
		StartedAt:   timeOf(shoot.Annotations, AnnotationStartedAt),
		EndedAt:     timeOf(shoot.Annotations, AnnotationEndedAt),
		Result:      Result(shoot.Annotations[AnnotationResult]),
		Message:     shoot.Annotations[AnnotationMessage],
		Final:       shoot.Annotations[AnnotationFinal],
		From:        shoot.Annotations[AnnotationFrom],

		AnnouncedBy: shoot.Annotations[AnnotationAnnouncedBy],
		AnnouncedAt: timeOf(shoot.Annotations, AnnotationAnnouncedAt),
	}
	if shoot.Spec.SeedName != nil {
		out.Spec = *shoot.Spec.SeedName
	}
	if shoot.Status.SeedName != nil {
		out.Status = *shoot.Status.SeedName
	}
	if shoot.Spec.Purpose != nil {
		out.Purpose = *shoot.Spec.Purpose
	}
	out.Attempts, _ = strconv.Atoi(shoot.Annotations[AnnotationAttempts])
	out.Hop, _ = strconv.Atoi(shoot.Annotations[AnnotationHop])

	conditions := steps.Conditions(shoot)
	if out.moving() && out.Intended && steps.Initialized(conditions) {
		current, _ := steps.Current(conditions)
		condition := v1beta1helper.GetCondition(conditions, current.Condition)
		if condition != nil && condition.Status == gardencorev1beta1.ConditionFalse &&
			condition.Reason == string(steps.ReasonDeadlineExceeded) {
			out.LateSince = condition.LastTransitionTime.Time
		}
	}
	out.Aborted = out.moving() && out.Intended && steps.Aborted(conditions) && !out.startedAfter(conditions)
	out.seeOperation(shoot.Status.LastOperation)
	return out
}

// seeOperation finds out what Gardener's own migration, and the restoration after a live one, has come to.
func (s *Shoot) seeOperation(operation *gardencorev1beta1.LastOperation) {
	if operation == nil {
		return
	}
	migrating := operation.Type == gardencorev1beta1.LastOperationTypeMigrate
	s.Restoring = s.Status != "" && s.Status == s.Spec && (migrating ||
		operation.Type == gardencorev1beta1.LastOperationTypeRestore &&
			operation.State != gardencorev1beta1.LastOperationStateSucceeded)
	if (s.Restoring || migrating && s.moving()) && operation.State == gardencorev1beta1.LastOperationStateFailed {
		s.FailedSince = operation.LastUpdateTime.Time
	}
}

// startedAfter reports whether a drain has started the move after the conditions say that one was aborted. The
// conditions stay until the source's agent begins with the next migration.
func (s Shoot) startedAfter(conditions []gardencorev1beta1.Condition) bool {
	if s.StartedBy == "" || s.from() != s.Status || s.Result != "" {
		return false
	}
	condition := v1beta1helper.GetCondition(conditions, steps.AbortOf(steps.Source).Condition)
	return condition != nil && condition.LastTransitionTime.Time.Before(s.StartedAt)
}

// moving reports whether the seed names differ.
func (s Shoot) moving() bool { return s.Spec != "" && s.Status != "" && s.Spec != s.Status }

// onItsWay returns from where to where the shoot moves. An aborted migration does not go anywhere. The source is empty
// where nobody knows it any more: the shoot is being restored, and no drain has moved it. What Gardener has given up
// counts then no more: it may be so for months.
func (s Shoot) onItsWay() (source, destination string, ok bool) {
	switch {
	case s.moving() && !s.Aborted:
		return s.Status, s.Spec, true
	case s.Restoring && s.ours():
		return s.from(), s.Status, true
	case s.Restoring && s.FailedSince.IsZero():
		return "", s.Status, true
	}
	return "", "", false
}

// ours reports whether the shoot is on a move that a drain has started, and whose end is not recorded.
func (s Shoot) ours() bool {
	return s.StartedBy != "" && s.Result == "" && (s.from() != s.Status || s.moving())
}

// carriedBy reports whether the shoot is on a move that the drain of the seed has started.
func (s Shoot) carriedBy(seed string) bool {
	_, _, going := s.onItsWay()
	return going && s.ours() && s.StartedBy == seed
}

// Ended returns how the last move that a drain has started is over, where that has not been recorded yet. A move begins
// with the change of the seed name, in one write with the annotations. So whoever finds the shoot where it was and
// nothing recorded knows that somebody has set the seed name back.
func (s Shoot) Ended() (Result, bool) {
	switch {
	case s.StartedBy == "" || s.Result != "":
		return "", false
	case s.Aborted:
		return Aborted, true
	case s.Status == "" || s.Status != s.Spec:
		return "", false
	case s.Status == s.from():
		return Aborted, true
	case s.Restoring:
		return "", false
	}
	return Succeeded, true
}

// Assessment tells where a shoot can go and how, or what keeps it.
type Assessment struct {
	// Destination is the seed that it can move to; empty if something keeps it.
	Destination string
	// Final is where it ends if Destination is too far from there, and only a seed on the way; empty if not.
	Final string
	// Way is how it can move.
	Way Way
	// InMaintenanceWindow reports whether it is the time in which the shoot's owner expects that it is touched.
	InMaintenanceWindow bool
	// WindowOpens is when that time begins next, if it is not now.
	WindowOpens time.Time
	// Reason and Message tell what keeps it, or what it waits for.
	Reason  Reason
	Message string
	// Waits reports that the reason passes without anybody's doing. Until is when; zero if nobody knows.
	Waits bool
	Until time.Time
	// Measure are the connections that agents have to measure before it may begin.
	Measure []Connection
}
