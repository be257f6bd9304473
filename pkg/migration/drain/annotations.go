// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"strconv"
	"time"
)

// Annotations that operators set.
const (
	// AnnotationDrain on a Seed, with a true value, lets its control planes leave it. Its removal starts no more of
	// them and lets the running migrations finish.
	AnnotationDrain = "migration.gardener.cloud/drain"
	// AnnotationFallback on a Seed permits another way for shoots that are not highly available, or that are hibernated
	// and have to stay otherwise. The only value is FallbackClassic.
	AnnotationFallback = "migration.gardener.cloud/drain-fallback"
	// FallbackClassic lets them go by the classic migration, each in its maintenance time window.
	FallbackClassic = "classic"
	// AnnotationHibernated on a Seed says what its drain does with hibernated shoots. Without it they go classically
	// while they are hibernated. The only value is HibernatedStay.
	AnnotationHibernated = "migration.gardener.cloud/drain-hibernated"
	// HibernatedStay keeps them in the seed until they are awake.
	HibernatedStay = "stay"
	// AnnotationMaxHops on a Seed is how many live migrations one after the other its drain may take to move a shoot
	// whose destinations are all too far away for one: 1 to hops.Max. Without it, it is 1, and such shoots stay.
	AnnotationMaxHops = "migration.gardener.cloud/drain-max-hops"
	// AnnotationOptOut on a Shoot, with a true value, keeps drains from moving it.
	AnnotationOptOut = "migration.gardener.cloud/drain-opt-out"
)

// Annotations in which the controller keeps what it has to know after a restart. It alone writes them.
const (
	// AnnotationSchedulingVisible on a Seed is what spec.settings.scheduling.visible was before the drain. It is there
	// as long as the drain keeps the scheduler away.
	AnnotationSchedulingVisible = "migration.gardener.cloud/drain-scheduling-visible"
	// AnnotationStartedAt is when the drain of the Seed began, or when a drain started the move of the Shoot. That of a
	// Seed outlives a cancellation, so that a drain which continues counts what it had moved before.
	AnnotationStartedAt = "migration.gardener.cloud/drain-started-at"
	// AnnotationResumedAt on a Seed is when the drain last began or was resumed. Failures from before it do not count.
	AnnotationResumedAt = "migration.gardener.cloud/drain-resumed-at"
	// AnnotationStartedBy on a Shoot is the seed whose drain moves it, or was the last to do so.
	AnnotationStartedBy = "migration.gardener.cloud/drain-started-by"
	// AnnotationDestination on a Shoot is the seed that the drain has chosen.
	AnnotationDestination = "migration.gardener.cloud/drain-destination"
	// AnnotationWay on a Shoot is the Way in which the drain moves it.
	AnnotationWay = "migration.gardener.cloud/drain-way"
	// AnnotationAttempts on a Shoot is how often the drain has started its move.
	AnnotationAttempts = "migration.gardener.cloud/drain-attempts"
	// AnnotationResult on a Shoot is the Result of the last move that a drain has started. It is missing while that
	// continues.
	AnnotationResult = "migration.gardener.cloud/drain-result"
	// AnnotationEndedAt on a Shoot is when that move was seen to be over.
	AnnotationEndedAt = "migration.gardener.cloud/drain-ended-at"
	// AnnotationAnnouncedBy on a Shoot is the seed whose drain has announced its next move, AnnotationAnnouncedAt when.
	// They are there until the move begins.
	AnnotationAnnouncedBy = "migration.gardener.cloud/drain-announced-by"
	AnnotationAnnouncedAt = "migration.gardener.cloud/drain-announced-at"
	// AnnotationFinal on a Shoot is the seed in which the chain of migrations ends of which the last move is one,
	// AnnotationFrom the seed that this move has left, AnnotationHop its number in the chain, from 1. They are missing
	// if the move is the only one. An operator who removes AnnotationFinal lets the shoot stay where it is.
	AnnotationFinal = "migration.gardener.cloud/drain-final-destination"
	AnnotationFrom  = "migration.gardener.cloud/drain-from"
	AnnotationHop   = "migration.gardener.cloud/drain-hop"
	// AnnotationMessage on a Shoot tells why the move could not be started.
	AnnotationMessage = "migration.gardener.cloud/drain-message"
)

// Way is the way in which a control plane moves. They are in the order in which a drain prefers them: it takes the
// first that the shoot permits.
type Way string

const (
	// Live is the live migration.
	Live Way = "Live"
	// LiveWithGap is the live migration of a shoot with one etcd member, whose users have agreed to one gap
	// (steps.AnnotationWithGap). It begins in the maintenance time window, as what is noticed does.
	LiveWithGap Way = "LiveWithGap"
	// ClassicWhileHibernated is Gardener's migration of a shoot that is hibernated: it has no API server that would
	// stop.
	ClassicWhileHibernated Way = "ClassicWhileHibernated"
	// Classic is Gardener's migration, which stops the API server for a while.
	Classic Way = "Classic"
)

// IsClassic reports whether Gardener's own migration moves the control plane, without the agents.
func (w Way) IsClassic() bool { return w == Classic || w == ClassicWhileHibernated }

// ClassicDeadline is how long a classic move may take before it counts as late, and so how long before its wake-up a
// hibernated shoot is left alone. Gardener needs 10 to 20 minutes for one (docs/benchmarks.md); it sets no deadline.
const ClassicDeadline = time.Hour

// Result is how a move has ended.
type Result string

const (
	// Succeeded means that the control plane is in the other seed.
	Succeeded Result = "Succeeded"
	// Aborted means that the migration was aborted, or the seed name set back. Somebody decided that, so it is not
	// tried again.
	Aborted Result = "Aborted"
	// Refused means that the garden did not accept the start. It is tried again after a while.
	Refused Result = "Refused"
)

// Failed reports whether the result counts for the circuit breaker.
func (r Result) Failed() bool { return r == Aborted || r == Refused }

func isTrue(annotations map[string]string, key string) bool {
	value, err := strconv.ParseBool(annotations[key])
	return err == nil && value
}

// timeOf returns the zero time where the annotation is missing or no time.
func timeOf(annotations map[string]string, key string) time.Time {
	value, err := time.Parse(time.RFC3339, annotations[key])
	if err != nil {
		return time.Time{}
	}
	return value
}

// FormatTime returns the time in the form in which the annotations have it.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
