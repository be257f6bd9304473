// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package recording holds what is recorded of one live migration: the types of report.json and details.json. Who
// measures a migration writes them, pkg/proof/report reads them. It imports no client and nothing of ours.
package recording

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// Recording is what a migration cost the clients of a shoot: report.json. Fields may be added, not changed or removed,
// because recordings are kept.
type Recording struct {
	// Result is "succeeded" or "failed".
	Result string `json:"result"`
	// Shoot is namespace and name of the shoot.
	Shoot string `json:"shoot"`
	// Source and Destination are the seeds.
	Source      string `json:"source"`
	Destination string `json:"destination"`
	// DurationSeconds is how long the migration took.
	DurationSeconds float64 `json:"durationSeconds"`
	// Probe is what the load outside of the shoot has met.
	Probe Probe `json:"probe"`
	// Etcd holds the etcd clusters: main and events.
	Etcd map[string]Etcd `json:"etcd"`
	// SourceEtcdRestarts is how often etcd pods of the source restarted.
	SourceEtcdRestarts int `json:"sourceEtcdRestarts"`
	// DNSMomentsWithoutRecord is how often a name of the shoot was left without an address.
	DNSMomentsWithoutRecord int64 `json:"dnsMomentsWithoutRecord"`
	// ControllersActiveInBothSeeds are the controllers that ran in both seeds at the same time.
	ControllersActiveInBothSeeds []string `json:"controllersActiveInBothSeeds"`
	// Ownership is nil where nobody looked at who acts in which seed.
	Ownership *Ownership `json:"ownership"`
	// Steps are the steps that have finished, in their order.
	Steps []Step `json:"steps"`
	// Workers is nil for a shoot without workers.
	Workers *Workers `json:"workers,omitempty"`
}

// Etcd is what happened to one etcd cluster.
type Etcd struct {
	// Voters is the number of voting members, each time it changed.
	Voters []int `json:"voters"`
	// ClusterIDUnchanged reports that it was one cluster throughout.
	ClusterIDUnchanged bool `json:"clusterIDUnchanged"`
	// SixMemberWindowSeconds is how long it had six voters.
	SixMemberWindowSeconds float64 `json:"sixMemberWindowSeconds"`
	// AcknowledgedWritesLost is the number of acknowledged writes that were missing at the end.
	AcknowledgedWritesLost int64 `json:"acknowledgedWritesLost"`
}

// Step is how long a step took, from the end of the step before it.
type Step struct {
	// Condition is the type of the step's condition, Owner the role that owns it.
	Condition gardencorev1beta1.ConditionType `json:"condition"`
	Owner     string                          `json:"owner"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// WriteP99Ms is what 99 % of the writes that were acknowledged in the step have not exceeded, from when they were
	// due, and WriteMaxMs the slowest of them. Both are zero if there were none, and in recordings from before
	// 2026-11-26.
	WriteP99Ms float64 `json:"writeP99Ms,omitempty"`
	WriteMaxMs float64 `json:"writeMaxMs,omitempty"`
}

// Ownership is what looking at both seeds again and again has shown.
type Ownership struct {
	// Samples is how often both seeds were looked at.
	Samples int `json:"samples"`
	// Phases is how often they were looked at in each phase of the migration: before step 1, in each step, and after
	// the hand-over.
	Phases map[string]int `json:"phases,omitempty"`
	// Violations are what docs/concepts/ownership.md does not permit, one sentence each.
	Violations []string `json:"violations"`
}

// Details is what the report has no room for: details.json. It serves to find out why a count is not zero.
type Details struct {
	// Triggered is when the migration was asked for.
	Triggered time.Time `json:"triggered"`
	// Problems says why the result is not "succeeded".
	Problems []string `json:"problems"`
	// Probe says more about the load; nil if there was none.
	Probe *ProbeDetails `json:"probe"`
	// Etcd holds the members of each cluster, each time they changed.
	Etcd map[string][]Members `json:"etcd"`
	// Transitions are the reasons that the steps have shown. None in recordings from before 2026-11-27.
	Transitions []Transition `json:"transitions,omitempty"`
	// Overlaps are the times in which a controller ran in both seeds.
	Overlaps []Overlap `json:"overlaps"`
	// ObserverErrors says why an observer could not see everything. Each of them is a problem.
	ObserverErrors []string `json:"observerErrors,omitempty"`
	// SourceRestarts are the etcd pods of the source that restarted.
	SourceRestarts []string `json:"sourceRestarts"`
	// DNSChanges is what became of the shoot's records.
	DNSChanges []RecordChange `json:"dnsChanges"`
	// LeftInSource are the objects of the shoot that were left in the source seed.
	LeftInSource []string `json:"leftInSource"`
	// Machine is what the machine used in each phase.
	Machine map[string]Usage `json:"machine"`
	// Migration is why the migration did not come to its end, if it did not. It is among the problems.
	Migration error `json:"-"`
}

// Members is a member list that differs from the one before.
type Members struct {
	// Time is when the list had been read. Since is when the last look began that has shown the one before: the members
	// have changed between the two. Since is zero in the first list, and in recordings from before 2026-11-28.
	Time      time.Time `json:"time"`
	Since     time.Time `json:"since,omitzero"`
	ClusterID uint64    `json:"clusterID"`
	Voters    int       `json:"voters"`
	Members   []Member  `json:"members"`
}

// Member is one member of an etcd cluster.
type Member struct {
	Name    string `json:"name"`
	Learner bool   `json:"learner,omitempty"`
}

// Overlap is a time in which a controller of the shoot ran in both seeds.
type Overlap struct {
	Controller string    `json:"controller"`
	Since      time.Time `json:"since"`
	Seconds    float64   `json:"seconds"`
}

// RecordChange is what became of a DNS record by one update at its DNS server.
type RecordChange struct {
	Time time.Time `json:"time"`
	Name string    `json:"name"`
	Type string    `json:"type"`
	Old  []string  `json:"old"`
	New  []string  `json:"new"`
	TTL  uint32    `json:"ttl"`
}

// Usage is what the whole machine used during a phase, with the load and whatever measured.
type Usage struct {
	CPUCores        float64 `json:"cpuCores"`
	MaxMemoryMiB    int64   `json:"maxMemoryMiB"`
	DurationSeconds float64 `json:"durationSeconds"`
}
