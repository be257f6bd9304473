// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership says which controllers act on a shoot from which seed in each step of a live migration, and judges
// whether what runs in both seeds agrees with it. It is pure: it performs no I/O and imports no client. docs/concepts/ownership.md
// shows the same table; a test compares them.
package ownership

import (
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/steps"
)

// Owner tells in which seed the controllers of a set may be at work during a step.
type Owner string

const (
	// Nobody means in none of them.
	Nobody Owner = "-"
	// Source means in the source only.
	Source Owner = "source"
	// Destination means in the destination only.
	Destination Owner = "destination"
	// Both means in both at the same time. Only what serves may do so, or what takes turns by itself.
	Both Owner = "both"
	// Handed means that the source lets go in this step and the destination does not begin: never both, possibly none.
	Handed Owner = "source, then nobody"
	// Taken means that the destination begins in this step, in which nothing is left in the source.
	Taken Owner = "nobody, then destination"
	// Passed means that it goes from the source to the destination within this step: either of them, never both.
	Passed Owner = "source, then destination"
)

// Permits tells whether the role may be at work under this owner.
func (o Owner) Permits(role steps.Role) bool {
	switch o {
	case Both, Passed:
		return true
	case Source, Handed:
		return role == steps.Source
	case Destination, Taken:
		return role == steps.Destination
	}
	return false
}

// Name identifies a set. Tools may rely on the values.
type Name string

// The sets of controllers.
const (
	KubeControllerManager    Name = "kube-controller-manager"
	KubeScheduler            Name = "kube-scheduler"
	ResourceManager          Name = "gardener-resource-manager"
	MachineControllerManager Name = "machine-controller-manager"
	ClusterAutoscaler        Name = "cluster-autoscaler"
	DependencyWatchdog       Name = "dependency-watchdog"
	EarlyExtensions          Name = "extensions before kube-apiserver"
	Extensions               Name = "extensions"
	ControlPlane             Name = "controlplane"
	Infrastructure           Name = "infrastructure"
	Worker                   Name = "worker"
	NodeExtensions           Name = "network, operatingsystemconfig, containerruntime"
	DNSRecords               Name = "dnsrecord"
	BackupEntry              Name = "backupentry"
	VPNServer                Name = "vpn-seed-server"
	KubeAPIServer            Name = "kube-apiserver"
	Etcd                     Name = "etcd"
)

// Set is a set of controllers that act on one part of a shoot.
type Set struct {
	// Name is the name of the set.
	Name Name
	// Deployment is the name of the Deployment in the shoot's namespace whose pods are the set; empty if it is something else.
	Deployment string
	// Sign tells by what one sees that the set is at work in a seed.
	Sign string
	// OnlyWithWorkers says that a shoot without workers does not have it.
	OnlyWithWorkers bool
	// Owners are the owners during the steps, in the order of the step table.
	Owners []Owner
	// Why tells what makes the change of the owner safe.
	Why string
}

// pods is the sign of a set that is a Deployment.
const pods = "its pods"

// extensionObjects is the sign of a set that acts on extension resources.
const extensionObjects = "its resources, unless migrated or being deleted"

// sets is the table. A controller stops in the source before its like begins in the destination, unless it only serves.
var sets = []Set{
	{
		Name: KubeControllerManager, Deployment: v1beta1constants.DeploymentNameKubeControllerManager, Sign: pods,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Taken},
		Why:    "the Deployment is deleted in the foreground and outlives its pods; besides, a lease in the shoot lets one replica act",
	},
	{
		Name: KubeScheduler, Deployment: v1beta1constants.DeploymentNameKubeScheduler, Sign: pods, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Taken},
		Why:    "as kube-controller-manager",
	},
	{
		Name: ResourceManager, Deployment: v1beta1constants.DeploymentNameGardenerResourceManager, Sign: pods,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Taken},
		Why:    "as kube-controller-manager, and only when every managed resource is gone with its objects kept",
	},
	{
		Name: MachineControllerManager, Deployment: v1beta1constants.DeploymentNameMachineControllerManager, Sign: pods, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Nobody},
		Why:    "its pods are gone before the state of the machines is saved; the destination's gardenlet starts it after the hand-over, when the machines are restored",
	},
	{
		Name: ClusterAutoscaler, Deployment: v1beta1constants.DeploymentNameClusterAutoscaler, Sign: pods, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Nobody},
		Why:    "stopped before machine-controller-manager, so that nobody asks for a machine in between; the destination's gardenlet starts it after the hand-over",
	},
	{
		Name: DependencyWatchdog, Sign: "its access secret", OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Nobody},
		Why:    "one in each seed serves all shoots there; without its access to a shoot it does not probe it, and scales nothing of it",
	},
	{
		Name: EarlyExtensions, Sign: extensionObjects,
		Owners: []Owner{Source, Source, Handed, Taken, Destination, Destination, Destination, Destination},
		Why:    "migrated and deleted in the source, with their state saved, before the destination restores them",
	},
	{
		Name: Extensions, Sign: extensionObjects,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Taken},
		Why:    "as the early ones; for a shoot with workers the destination's gardenlet restores them after the hand-over",
	},
	{
		Name: ControlPlane, Sign: extensionObjects, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Nobody},
		Why:    "the cloud controller manager and the CSI controllers go with the resource; the destination's gardenlet restores it after the hand-over",
	},
	{
		Name: Infrastructure, Sign: extensionObjects, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Nobody},
		Why:    "migrated last of all, as in a classic migration; the destination's gardenlet restores it after the hand-over",
	},
	{
		Name: Worker, Sign: extensionObjects, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Nobody},
		Why:    "migrated when machine-controller-manager is gone; machine objects are deleted without their finalizers, so no machine is",
	},
	{
		Name: NodeExtensions, Sign: extensionObjects, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Source, Source, Source, Handed, Nobody},
		Why:    "migrated together with the Worker; what they have put into the shoot stays there and runs on",
	},
	{
		Name: DNSRecords, Sign: extensionObjects,
		Owners: []Owner{Source, Source, Source, Source, Handed, Taken, Destination, Destination},
		Why:    "the objects go without finalizers, so no controller deletes a record; only then the destination writes it",
	},
	{
		Name: BackupEntry, Sign: extensionObjects,
		Owners: []Owner{Passed, Taken, Destination, Destination, Destination, Destination, Destination, Destination},
		Why:    "the BackupEntry in the garden names one seed at a time",
	},
	{
		Name: VPNServer, Deployment: v1beta1constants.DeploymentNameVPNSeedServer, Sign: pods, OnlyWithWorkers: true,
		Owners: []Owner{Source, Source, Source, Both, Both, Both, Both, Destination},
		Why:    "it only serves: the nodes keep a tunnel to each seed, the one to the destination by a temporary client",
	},
	{
		Name: KubeAPIServer, Deployment: v1beta1constants.DeploymentNameKubeAPIServer, Sign: pods,
		Owners: []Owner{Source, Source, Source, Both, Both, Both, Both, Destination},
		Why:    "both serve the same data, and both name the same address to clients inside of the shoot",
	},
	{
		Name: Etcd, Sign: "its pods",
		Owners: []Owner{Source, Both, Both, Both, Both, Both, Destination, Destination},
		Why:    "the members of both seeds are one cluster, in which raft lets one lead",
	},
}

// Sets returns the table. The caller owns the slice, not what the owners in it point to.
func Sets() []Set {
	out := make([]Set, len(sets))
	copy(out, sets)
	return out
}

// Get returns the set of the name.
func Get(name Name) (Set, bool) {
	for _, set := range sets {
		if set.Name == name {
			return set, true
		}
	}
	return Set{}, false
}

// Exclusive returns the names of the Deployments whose pods must never run in both seeds at the same time, in the order of the
// table.
func Exclusive() []string {
	var out []string
	for _, set := range sets {
		if set.Deployment != "" && !set.overlaps() {
			out = append(out, set.Deployment)
		}
	}
	return out
}

func (s Set) overlaps() bool {
	for _, owner := range s.Owners {
		if owner == Both {
			return true
		}
	}
	return false
}
