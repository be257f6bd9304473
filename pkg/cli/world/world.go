// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package world holds what the commands of kubectl-livecpm look at, and what it says about a migration. It is pure: what
// reads the world is in pkg/cli/garden and pkg/cli/seed, what shows it in pkg/cli/view.
package world

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// World is a shoot and the parts of its control plane in the seeds at one moment. It can be recorded as YAML.
type World struct {
	// Now is the moment.
	Now metav1.Time `json:"now"`
	// Shoot is the shoot.
	Shoot *gardencorev1beta1.Shoot `json:"shoot"`
	// Seeds are the seeds of the migration, the source first.
	Seeds []Seed `json:"seeds,omitempty"`
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
}

// Etcd is an Etcd resource.
type Etcd struct {
	// Name is its name.
	Name string `json:"name"`
	// MemberNamePrefix is what it puts before the names of its members.
	MemberNamePrefix string `json:"memberNamePrefix,omitempty"`
	// DefragmentationSchedule is the cron expression of its defragmentation.
	DefragmentationSchedule string `json:"defragmentationSchedule,omitempty"`
	// Members are its members as etcd-druid reports them.
	Members []Member `json:"members,omitempty"`
	// Pods are the pods of its members.
	Pods []Pod `json:"pods,omitempty"`
}

// Member is an etcd member.
type Member struct {
	// Name is its name.
	Name string `json:"name"`
	// Role is Leader, Member or empty.
	Role string `json:"role,omitempty"`
	// Status is Ready, NotReady or Unknown.
	Status string `json:"status"`
}

// Pod is a pod.
type Pod struct {
	// Name is its name.
	Name string `json:"name"`
	// Ready tells that it is ready.
	Ready bool `json:"ready"`
	// Terminating tells that it is being deleted.
	Terminating bool `json:"terminating,omitempty"`
}

// Record is a DNSRecord object.
type Record struct {
	// Name is the domain name.
	Name string `json:"name"`
	// Values are where it points.
	Values []string `json:"values"`
}
