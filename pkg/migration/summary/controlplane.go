// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package summary holds what the commands of kubectl-livecpm look at, and what it says about a migration. It is pure:
// what reads the world is in pkg/cli/access and pkg/cli/inspect, what shows it in pkg/cli/view.
package summary

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControlPlane is a shoot and the parts of its control plane in the seeds at one moment. It can be recorded as YAML.
type ControlPlane struct {
	// Now is the moment.
	Now metav1.Time `json:"now"`
	// Shoot is the shoot.
	Shoot *gardencorev1beta1.Shoot `json:"shoot"`
	// Seeds are the seeds of the migration, the source first.
	Seeds []Seed `json:"seeds,omitempty"`
	// Expected is how long the migration is expected to take; nil if that is not known.
	Expected *Expectation `json:"expected,omitempty"`
	// Probe is the request probe that runs against the shoot, if this machine runs one.
	Probe *Probe `json:"probe,omitempty"`
}

// Probe is what a running request probe has counted so far.
type Probe struct {
	// Started is when its load began, Updated when the counts were taken.
	Started metav1.Time `json:"started"`
	Updated metav1.Time `json:"updated"`
	// Namespace is the namespace in the shoot that it works in.
	Namespace string `json:"namespace"`
	// Writes and Reads are the requests, WritesFailed and ReadsFailed those of them that failed.
	Writes       int64 `json:"writes"`
	WritesFailed int64 `json:"writesFailed"`
	Reads        int64 `json:"reads"`
	ReadsFailed  int64 `json:"readsFailed"`
	// WatchEvents is the number of events that its watches have delivered.
	WatchEvents int64 `json:"watchEvents"`
	// ConnectionErrors are the errors of connections that clients hide from their callers.
	ConnectionErrors int64 `json:"connectionErrors"`
	// LongestWriteGapMs is the longest time without an acknowledged write since the migration began,
	// BaselineLongestWriteGapMs the one before, and SinceLastWriteMs how long none has been acknowledged now, all in
	// milliseconds.
	LongestWriteGapMs         int64 `json:"longestWriteGapMs,omitempty"`
	BaselineLongestWriteGapMs int64 `json:"baselineLongestWriteGapMs,omitempty"`
	SinceLastWriteMs          int64 `json:"sinceLastWriteMs,omitempty"`
}

// Seed is what was seen of the shoot's control plane in one seed.
type Seed struct {
	// Name is the name of the seed.
	Name string `json:"name"`
	// Unknown tells why nothing is known of it; empty if it was looked at.
	Unknown string `json:"unknown,omitempty"`
	// Agent is the agent in the seed.
	Agent *Agent `json:"agent,omitempty"`
	// Etcds are the shoot's Etcd resources in the seed.
	Etcds []Etcd `json:"etcds,omitempty"`
	// APIServers are the pods of the kube-apiserver.
	APIServers []Pod `json:"apiServers,omitempty"`
	// Records are the shoot's DNS records that the seed manages.
	Records []Record `json:"records,omitempty"`
}

// Agent is the Deployment of livecpm-agent in a seed.
type Agent struct {
	// Desired and Ready are the numbers of its replicas.
	Desired int32 `json:"desired"`
	Ready   int32 `json:"ready"`
	// Led is when an agent last showed that it leads in the seed, which it does every few seconds; nil if that is not
	// known.
	Led *metav1.Time `json:"led,omitempty"`
}

// LeaseAge is how long ago a leader may have renewed its lease. It does so every few seconds; clocks may differ.
const LeaseAge = time.Minute

// SilentFor returns for how long no agent has led in the seed, as far as that is known and longer than a restart takes.
func (a *Agent) SilentFor(now time.Time) (time.Duration, bool) {
	if a == nil || a.Led == nil {
		return 0, false
	}
	age := now.Sub(a.Led.Time)
	return age, age > LeaseAge
}

// Etcd is an Etcd resource.
type Etcd struct {
	// Name is its name.
	Name string `json:"name"`
	// MemberNamePrefix is what it puts before the names of its members.
	MemberNamePrefix string `json:"memberNamePrefix,omitempty"`
	// DefragmentationSchedule is the cron expression of its defragmentation.
	DefragmentationSchedule string `json:"defragmentationSchedule,omitempty"`
	// Members are its members as they say themselves, or as etcd-druid reports them if they could not be asked.
	Members []Member `json:"members,omitempty"`
	// Unasked tells why the members could not be asked; empty if they were, or if nobody tried.
	Unasked string `json:"unasked,omitempty"`
	// Pods are the pods of its members.
	Pods []Pod `json:"pods,omitempty"`
}

// The roles of members that were asked. etcd-druid knows Leader and Member only.
const (
	RoleLeader  = "Leader"
	RoleVoter   = "Voter"
	RoleLearner = "Learner"
)

// Member is an etcd member.
type Member struct {
	// Name is its name.
	Name string `json:"name"`
	// Role is Leader, Voter, Learner, Member or empty.
	Role string `json:"role,omitempty"`
	// Status is Ready, NotReady, NoLeader or Unknown.
	Status string `json:"status"`
	// Lag is how many entries of the log it has still to apply; nil if that is not known.
	Lag *uint64 `json:"lag,omitempty"`
	// DBSize is the size of its database in bytes; nil if that is not known.
	DBSize *int64 `json:"dbSize,omitempty"`
}

// Pod is a pod.
type Pod struct {
	// Name is its name.
	Name string `json:"name"`
	// Ready reports that it is ready.
	Ready bool `json:"ready"`
	// Terminating reports that it is being deleted.
	Terminating bool `json:"terminating,omitempty"`
}

// Record is a DNSRecord object.
type Record struct {
	// Name is the domain name.
	Name string `json:"name"`
	// Values are where it points.
	Values []string `json:"values"`
}
