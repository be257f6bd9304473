// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import "time"

// Workers is what a migration meant for the nodes of a shoot with workers.
type Workers struct {
	// Machines are the machines after the migration, each with its node.
	Machines map[string]string `json:"machines"`
	// Pools are the worker pools with their machines, before and after.
	Pools []Pool `json:"pools"`
	// MachinesCreated and MachinesDeleted are the machines that the cloud has seen come and go, NodesCreated and
	// NodesDeleted the nodes that the shoot has.
	MachinesCreated []string `json:"machinesCreated"`
	MachinesDeleted []string `json:"machinesDeleted"`
	NodesCreated    []string `json:"nodesCreated"`
	NodesDeleted    []string `json:"nodesDeleted"`
	// States are the states that extensions keep, before and after.
	States []State `json:"states"`
	// Changed is what is not as it was before: machines, nodes, and the state that extensions keep.
	Changed []string `json:"changed"`
	// Misdone are operations of the test extension that failed, or that two seeds did at the same time.
	Misdone []string `json:"misdone"`
	// Operations is how many operations the test extension has recorded during the migration.
	Operations int `json:"operations"`
	// VPN counts requests of the kube-apiserver to kubelets, which go through the VPN.
	VPN Requests `json:"vpn"`
	// Webhooks counts requests that are refused if none of Gardener's resource managers answers the webhook of it that
	// the kube-apiserver asks. Recordings from before there was such a count have none.
	Webhooks Requests `json:"webhooks"`
	// InCluster counts requests of clients on the nodes to the address of the Service default/kubernetes.
	InCluster InCluster `json:"inCluster"`
	// Streams are a followed log, a command and a forwarded port, each kept open through the VPN. Recordings from
	// before 2026-11-29 have none.
	Streams []Stream `json:"streams,omitempty"`
}

// Stream is what was counted of a stream between a client and a pod, which is opened again whenever it breaks.
type Stream struct {
	// Kind is logs, exec or port-forward.
	Kind string `json:"kind"`
	// Opened is how often it was opened, Broken how often it broke then.
	Opened int `json:"opened"`
	Broken int `json:"broken"`
	// Refused is how many attempts to open it failed; FirstRefused and LastRefused are when the first and the last of
	// them ended, zero if there were none.
	Refused      int       `json:"refused"`
	FirstRefused time.Time `json:"firstRefused,omitzero"`
	LastRefused  time.Time `json:"lastRefused,omitzero"`
	// LongestGapMs is the longest time between two answers, one of which is due every second.
	LongestGapMs int64 `json:"longestGapMs"`
	// Errors are the first errors.
	Errors []string `json:"errors,omitempty"`
}

// Pool is a worker pool.
type Pool struct {
	Name     string    `json:"name"`
	Machines []Machine `json:"machines"`
}

// Machine is a machine with the names of its node before and after the migration; empty where it had none or was none.
type Machine struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// State is the state that an extension keeps, as a digest: states may hold what nobody should read.
type State struct {
	Resource string `json:"resource"`
	Before   string `json:"before"`
	After    string `json:"after"`
}

// Requests counts requests.
type Requests struct {
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	// FirstFailed and LastFailed are when the first and the last of those ended; zero if none failed.
	FirstFailed time.Time `json:"firstFailed,omitzero"`
	LastFailed  time.Time `json:"lastFailed,omitzero"`
	// Errors are the first errors.
	Errors []string `json:"errors,omitempty"`
}

// InCluster is what clients inside of the shoot have noticed that use the address of the Service default/kubernetes.
type InCluster struct {
	Requests int `json:"requests"`
	// Failed are all requests that failed. CutByProxy are those of them whose connection broke because it led to an
	// apiserver-proxy of the same node that ended: the price of rolling it, which Gardener's own updates have as well.
	Failed     int `json:"failed"`
	CutByProxy int `json:"cutByProxy"`
	// Stale are those of the failed ones that read less than had been acknowledged.
	Stale int `json:"stale,omitempty"`
	// FirstFailed and LastFailed are when the first and the last of those that failed and were not cut ended; zero if
	// there were none.
	FirstFailed time.Time `json:"firstFailed,omitzero"`
	LastFailed  time.Time `json:"lastFailed,omitzero"`
	// LongestGapMs is the longest time in which one client had no answer, BaselineLongestGapMs the one before the
	// trigger.
	LongestGapMs         int64 `json:"longestGapMs"`
	BaselineLongestGapMs int64 `json:"baselineLongestGapMs"`
	// Nodes are the counts by node.
	Nodes map[string]InClusterNode `json:"nodes"`
	// Errors are the first errors of each node.
	Errors []string `json:"errors,omitempty"`
	// Doubts are why the counts may not be all: a client that began again, and one that could not be asked in the end.
	Doubts []string `json:"doubts,omitempty"`
}

// InClusterNode is what was counted on one node.
type InClusterNode struct {
	Requests     int     `json:"requests"`
	Failed       int     `json:"failed"`
	CutByProxy   int     `json:"cutByProxy"`
	LongestGapMs int64   `json:"longestGapMs"`
	Seconds      float64 `json:"seconds"`
	// Due is how many requests were due in these seconds.
	Due int `json:"due,omitempty"`
}
