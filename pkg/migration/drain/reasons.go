// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

// State is where a Shoot stands in the drain of its seed. Tools may rely on the values.
type State string

const (
	// Done means that the drain has moved the Shoot away.
	Done State = "Done"
	// Running means that the Shoot is on its way to another seed, whoever started it.
	Running State = "Running"
	// Waiting means that the Shoot moves by itself as soon as its turn has come.
	Waiting State = "Waiting"
	// Blocked means that the Shoot stays until somebody changes something.
	Blocked State = "Blocked"
)

// Reason is the machine-readable word that tells why a Shoot is in its state. Shoots that do not meet a prerequisite of
// a live migration have the reason of that check (see pkg/preflight). Tools may rely on the values.
type Reason string

// Reasons of running and finished moves.
const (
	// ReasonMoved appears when the drain has moved the Shoot.
	ReasonMoved Reason = "Moved"
	// ReasonMigrating appears while the Shoot is on its way to another seed.
	ReasonMigrating Reason = "Migrating"
	// ReasonDeadlineExceeded appears while a step of the migration is past its deadline. It is still tried; see the
	// page of the step. It counts as a failure.
	ReasonDeadlineExceeded Reason = "DeadlineExceeded"
	// ReasonOperationFailed appears when Gardener has given up its own migration, or the restoration in the
	// destination: the last operation is Migrate or Restore with the state Failed. It counts as a failure. The operator
	// fixes the cause and lets Gardener retry.
	ReasonOperationFailed Reason = "OperationFailed"
)

// Reasons to wait.
const (
	// ReasonSourceBudget appears while as many Shoots as permitted are leaving the seed.
	ReasonSourceBudget Reason = "SourceBudgetUsed"
	// ReasonDestinationBudget appears while as many Shoots as permitted are moving to the destination.
	ReasonDestinationBudget Reason = "DestinationBudgetUsed"
	// ReasonTotalBudget appears while as many Shoots as permitted are moving at all.
	ReasonTotalBudget Reason = "TotalBudgetUsed"
	// ReasonPause appears in the pause after a migration.
	ReasonPause Reason = "PauseAfterMigration"
	// ReasonCircuitOpen appears when too many migrations have failed. The operator fixes the cause, cancels
	// the drain and starts it again.
	ReasonCircuitOpen Reason = "CircuitOpen"
	// ReasonMaintenanceWindow appears until the maintenance time window of a Shoot that is to move classically, or of
	// any if the Seed has the annotation AnnotationWindows.
	ReasonMaintenanceWindow Reason = "WaitingForMaintenanceWindow"
	// ReasonFreeze appears in a change freeze, and in the hour before.
	ReasonFreeze Reason = "ChangeFreeze"
	// ReasonCanaries appears while only the first Shoots move, ReasonSoaking in the time after they have arrived.
	ReasonCanaries Reason = "CanaryStage"
	ReasonSoaking  Reason = "Soaking"
	// ReasonAnnounced appears when the move is announced, until it may begin.
	ReasonAnnounced Reason = "Announced"
	// ReasonNotAnnounced appears while as many Shoots are announced as may leave the seed at once.
	ReasonNotAnnounced Reason = "NotAnnounced"
	// ReasonNoticeFailed appears when the move could not be announced. It is tried again.
	ReasonNoticeFailed Reason = "NoticeFailed"
	// ReasonRetryLater appears after a refused start until the next attempt.
	ReasonRetryLater Reason = "RetryLater"
	// ReasonNext appears when the Shoot is about to be started.
	ReasonNext Reason = "Next"
	// ReasonHibernating and ReasonWakingUp appear while the Shoot goes into hibernation, or wakes up. Then the drain
	// looks again which way it permits.
	ReasonHibernating Reason = "Hibernating"
	ReasonWakingUp    Reason = "WakingUp"
	// ReasonWakeUpDue appears on a hibernated Shoot that wakes up soon by its schedule: Gardener wakes up no Shoot that
	// is on its way.
	ReasonWakeUpDue Reason = "WakeUpDue"
	// ReasonNotMeasured appears when the Shoot can move by way of other seeds only, and the agents have not measured
	// the connection between two of them in the last 30 minutes. The drain asks them to.
	ReasonNotMeasured Reason = "DistanceNotMeasured"
	// ReasonOtherDrain appears when the Shoot is between two migrations, in a seed that is drained itself.
	ReasonOtherDrain Reason = "LeftToOtherDrain"
	// ReasonDeleting appears while the Shoot is being deleted: it leaves the seed by itself.
	ReasonDeleting Reason = "BeingDeleted"
	// ReasonArriving appears while the Shoot is created in the seed or on its way into it.
	ReasonArriving Reason = "Arriving"
	// ReasonCancelled appears on what has not been started when the drain is cancelled.
	ReasonCancelled Reason = "Cancelled"
)

// Reasons to stay, in addition to the prerequisites of a live migration.
const (
	// ReasonOptedOut appears on Shoots with the annotation AnnotationOptOut.
	ReasonOptedOut Reason = "OptedOut"
	// ReasonIgnored appears on Shoots with the annotation shoot.gardener.cloud/ignore.
	ReasonIgnored Reason = "Ignored"
	// ReasonSettingsInvalid appears when an annotation of the Seed that says when moves may begin cannot be read.
	ReasonSettingsInvalid Reason = "SettingsInvalid"
	// ReasonNoCandidate appears when the scheduler finds no other seed for the Shoot.
	ReasonNoCandidate Reason = "NoCandidate"
	// ReasonAborted appears when the live migration was aborted. The operator decides how to continue.
	ReasonAborted Reason = "MigrationAborted"
	// ReasonRefused appears when the garden has refused the start for the last time that it is tried.
	ReasonRefused Reason = "StartRefused"
	// ReasonUnknown appears when what speaks for or against a move could not be read.
	ReasonUnknown Reason = "PrerequisitesUnknown"
)
