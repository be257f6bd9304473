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

	// GardenClientConnection is how the controllers reach the garden, which is the cluster that serves Gardener's API. Without
	// a kubeconfig it is the cluster that the pod runs in.
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
}

// GateWatchdogController configures the controller that keeps the gate against the classic migration in force.
type GateWatchdogController struct {
	// Restore tells whether the controller puts the admission policy and its binding back when they are missing or changed,
	// and takes a left-over constraint ReadyForMigration off a Shoot. If not, it only reports. Default: true.
	// +optional
	Restore *bool `json:"restore,omitempty"`
	// ProofPeriod is the time between two proofs, for each Shoot on its way to another seed, that the policy is enforced.
	// Default: 5s.
	// +optional
	ProofPeriod *metav1.Duration `json:"proofPeriod,omitempty"`
	// ConcurrentProofs is how many Shoots are proved at the same time. Default: 5.
	// +optional
	ConcurrentProofs *int `json:"concurrentProofs,omitempty"`
}
