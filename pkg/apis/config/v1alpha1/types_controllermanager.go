// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ControllerManagerConfiguration configures livecpm-controller-manager.
type ControllerManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// GardenClientConnection is how the controllers reach the garden, which is the cluster that serves Gardener's API.
	// Without a kubeconfig it is the cluster that the pod runs in.
	// +optional
	GardenClientConnection componentbaseconfigv1alpha1.ClientConnectionConfiguration `json:"gardenClientConnection"`
	// LeaderElection configures the lease, which is in the garden.
	// +optional
	LeaderElection *componentbaseconfigv1alpha1.LeaderElectionConfiguration `json:"leaderElection,omitempty"`
	// Server configures the ports for probes and metrics.
	// +optional
	Server Server `json:"server"`
	// LogLevel is one of debug, info, error. Default: info.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is one of json, text. Default: json.
	// +optional
	LogFormat string `json:"logFormat,omitempty"`
	// Controllers configures the controllers.
	// +optional
	Controllers ControllerManagerControllers `json:"controllers"`
}

// ControllerManagerControllers configures the controllers of livecpm-controller-manager.
type ControllerManagerControllers struct {
	// GateWatchdog configures the controller that keeps the gate against the classic migration in force.
	// +optional
	GateWatchdog GateWatchdogController `json:"gateWatchdog"`
	// Drain configures the controller that empties seeds.
	// +optional
	Drain DrainController `json:"drain"`
	// RemovalGuard configures the controller that keeps livecpm from being removed while a live migration is in flight.
	// +optional
	RemovalGuard RemovalGuardController `json:"removalGuard"`
	// FormerBackups configures the controller that gives agents the way to the backups which a migration leaves behind.
	// +optional
	FormerBackups FormerBackupsController `json:"formerBackups"`
	// Deadline configures the controller that tells people when a migration as a whole takes too long.
	// +optional
	Deadline DeadlineController `json:"deadline"`
}

// DeadlineController configures the controller that tells people when a migration as a whole takes too long. It stops
// and undoes nothing.
type DeadlineController struct {
	// Enabled reports whether the controller watches at all. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// After is how long a migration may take, unless the annotation migration.gardener.cloud/deadline of its Shoot says
	// otherwise. Default: 4h, which is longer than the deadlines of all steps together.
	// +optional
	After *metav1.Duration `json:"after,omitempty"`
}

// FormerBackupsController configures the controller that gives agents the way to the backups which a migration leaves
// behind in the bucket of the other seed.
type FormerBackupsController struct {
	// Enabled reports whether the controller creates the BackupEntries that agents ask for. Where SeedRestriction is in
	// force, migrations do not complete without that. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// RemovalGuardController configures the controller that keeps livecpm from being removed while a live migration is in
// flight.
type RemovalGuardController struct {
	// Enabled reports whether the controller writes down what is in flight. The admission policy refuses nothing
	// without that. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// GateWatchdogController configures the controller that keeps the gate against the classic migration in force.
type GateWatchdogController struct {
	// Restore reports whether the controller puts the admission policy and its binding back when they are missing or
	// changed, and takes a left-over constraint ReadyForMigration off a Shoot. If not, it only reports. Default: true.
	// +optional
	Restore *bool `json:"restore,omitempty"`
	// ProofPeriod is the time between two proofs, for each Shoot on its way to another seed, that the policy is
	// enforced. Default: 5s.
	// +optional
	ProofPeriod *metav1.Duration `json:"proofPeriod,omitempty"`
	// ConcurrentProofs is how many Shoots are proved at the same time. Default: 5.
	// +optional
	ConcurrentProofs *int `json:"concurrentProofs,omitempty"`
}

// DrainController configures the controller that empties seeds. What it bounds are the moves of control planes from one
// seed to another, whoever has started them.
type DrainController struct {
	// Enabled reports whether seeds are drained at all. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// MaxPerSource is how many control planes may leave one seed at the same time. Default: 2.
	// +optional
	MaxPerSource *int `json:"maxPerSource,omitempty"`
	// MaxPerDestination is how many may move to one seed at the same time. Default: 2.
	// +optional
	MaxPerDestination *int `json:"maxPerDestination,omitempty"`
	// MaxTotal is how many may move at the same time in the garden. Default: 5.
	// +optional
	MaxTotal *int `json:"maxTotal,omitempty"`
	// Pause is the time between the end of a move and the next start from the same seed. Default: 1m.
	// +optional
	Pause *metav1.Duration `json:"pause,omitempty"`
	// MaxFailuresInARow is after how many failures in a row nothing more is started from a seed. Default: 3.
	// +optional
	MaxFailuresInARow *int `json:"maxFailuresInARow,omitempty"`
	// MaxFailurePercent is which share of the moves that have ended since a drain was last resumed may have failed, in
	// percent from 1 to 100. It counts from ten moves on. Default: 20.
	// +optional
	MaxFailurePercent *int `json:"maxFailurePercent,omitempty"`
	// MaxAttempts is how often the move of one Shoot is tried when the garden refuses it. Default: 3.
	// +optional
	MaxAttempts *int `json:"maxAttempts,omitempty"`
	// RetryAfter is the time between two of these attempts. Default: 10m.
	// +optional
	RetryAfter *metav1.Duration `json:"retryAfter,omitempty"`
	// SyncPeriod is how often the prerequisites of shoots that cannot move are looked at again. Default: 30s.
	// +optional
	SyncPeriod *metav1.Duration `json:"syncPeriod,omitempty"`
	// SchedulingStrategy is the strategy that destinations are chosen with, SameRegion or MinimalDistance. It should be
	// that of gardener-scheduler. Default: SameRegion, as in gardener-scheduler.
	// +optional
	SchedulingStrategy string `json:"schedulingStrategy,omitempty"`
	// Notice configures how moves are announced before they begin.
	// +optional
	Notice DrainNotice `json:"notice"`
}

// What a drain does while its webhook fails.
const (
	// DrainWebhookHold lets moves wait until they can be announced.
	DrainWebhookHold = "Hold"
	// DrainWebhookContinue lets them begin without it after some failures.
	DrainWebhookContinue = "Continue"
)

// DrainNotice configures how the moves of drains are announced before they begin: by an event at the Shoot and, if
// there is one, to a webhook. Without lead time and webhook they are not.
type DrainNotice struct {
	// LeadTime is the least time between the announcement of a move and its begin. Default: 0s.
	// +optional
	LeadTime *metav1.Duration `json:"leadTime,omitempty"`
	// Webhook is told about each move.
	// +optional
	Webhook *DrainWebhook `json:"webhook,omitempty"`
}

// DrainWebhook is an endpoint that gets a CloudEvent 1.0 in structured JSON for each move.
type DrainWebhook struct {
	// URL is where the event is posted, https or http. It may contain no user and no password, and should contain no
	// secret at all: whoever may read the configuration can read it.
	URL string `json:"url"`
	// TokenFile is a file with a token that is sent as "Authorization: Bearer". It is read for each event, and needs
	// https.
	// +optional
	TokenFile string `json:"tokenFile,omitempty"`
	// CAFile is a file with the certificate authorities of the endpoint in PEM. Default: those of the system.
	// +optional
	CAFile string `json:"caFile,omitempty"`
	// Timeout bounds one attempt, with the answer. Default: 10s.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// RetryAfter is the time between two attempts. Default: 1m.
	// +optional
	RetryAfter *metav1.Duration `json:"retryAfter,omitempty"`
	// OnFailure says what happens while the endpoint cannot be told: Hold or Continue. Default: Hold.
	// +optional
	OnFailure string `json:"onFailure,omitempty"`
	// Attempts is after how many failures in a row moves begin without it, if OnFailure is Continue. Default: 3.
	// +optional
	Attempts *int `json:"attempts,omitempty"`
}
