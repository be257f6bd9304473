// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

// Components names a set of components that act on one part of a shoot. What belongs to it, and how to see that it is
// at work, is in pkg/migration/ownership.
type Components string

// The sets of components.
const (
	KubeControllerManager    Components = "kube-controller-manager"
	KubeScheduler            Components = "kube-scheduler"
	ResourceManager          Components = "gardener-resource-manager"
	MachineControllerManager Components = "machine-controller-manager"
	ClusterAutoscaler        Components = "cluster-autoscaler"
	DependencyWatchdog       Components = "dependency-watchdog"
	EarlyExtensions          Components = "extensions before kube-apiserver"
	Extensions               Components = "extensions"
	ControlPlane             Components = "controlplane"
	Infrastructure           Components = "infrastructure"
	Worker                   Components = "worker"
	NodeExtensions           Components = "network, operatingsystemconfig, containerruntime"
	DNSRecords               Components = "dnsrecord"
	BackupEntry              Components = "backupentry"
	VPNServer                Components = "vpn-seed-server"
	KubeAPIServer            Components = "kube-apiserver"
	Etcd                     Components = "etcd"
)

// Holder tells in which seed a set of components may be at work during a step.
type Holder string

const (
	// HeldByNobody means in none of them.
	HeldByNobody Holder = "-"
	// HeldBySource means in the source only.
	HeldBySource Holder = "source"
	// HeldByDestination means in the destination only.
	HeldByDestination Holder = "destination"
	// HeldByBoth means in both at the same time. Only what serves may do so, or what takes turns by itself.
	HeldByBoth Holder = "both"
	// LetGo means that the source lets go in this step and the destination does not begin: never both, possibly none.
	LetGo Holder = "source, then nobody"
	// Taken means that the destination begins in this step, in which nothing is left in the source.
	Taken Holder = "nobody, then destination"
	// Passed means that it goes from the source to the destination within this step: either of them, never both.
	Passed Holder = "source, then destination"
	// PassedWhenAsked means the same, at the moment at which the owner of the step asks its peer: the source until
	// then, and only the destination from then on.
	PassedWhenAsked Holder = "source, then destination when asked"
)

// Permits reports whether the set may be at work in the role's seed.
func (h Holder) Permits(role Role) bool {
	switch h {
	case HeldByBoth, Passed, PassedWhenAsked:
		return true
	case HeldBySource, LetGo:
		return role == Source
	case HeldByDestination, Taken:
		return role == Destination
	}
	return false
}
