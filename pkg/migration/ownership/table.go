// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership says which controllers act on a shoot from which seed in each step of a live migration, and judges
// whether what runs in both seeds agrees with it. It is pure: it performs no I/O and imports no client.
// docs/concepts/ownership.md shows the same table; a test compares them.
package ownership

import (
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Set is a set of controllers that act on one part of a shoot.
type Set struct {
	// Name is the name of the set.
	Name steps.Components
	// Deployment is the name of the Deployment in the shoot's namespace whose pods are the set; empty if it is
	// something else.
	Deployment string
	// Sign tells by what one sees that the set is at work in a seed.
	Sign string
	// OnlyWithWorkers says that a shoot without workers does not have it.
	OnlyWithWorkers bool
	// Owners tell where it may be at work during the steps, in their order. The steps say so.
	Owners []steps.Holder
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
		Name: steps.KubeControllerManager, Deployment: v1beta1constants.DeploymentNameKubeControllerManager, Sign: pods,
		Why: "the Deployment is deleted in the foreground and outlives its pods, and the source asks for the " +
			"destination's when neither is left; also, a lease in the shoot lets one replica act",
	},
	{
		Name: steps.KubeScheduler, Deployment: v1beta1constants.DeploymentNameKubeScheduler, Sign: pods,
		OnlyWithWorkers: true,
		Why:             "as kube-controller-manager",
	},
	{
		Name: steps.ResourceManager, Deployment: v1beta1constants.DeploymentNameGardenerResourceManager,
		Sign: "its pods, and those of `" + WebhookServer + "` unless their Lease shows that they only answer webhooks",
		Why: "as kube-controller-manager, and only when every managed resource is gone with its objects kept. Its " +
			"lease is in the seed, so that only the order keeps two of them apart",
	},
	{
		Name: steps.MachineControllerManager, Deployment: v1beta1constants.DeploymentNameMachineControllerManager,
		Sign: pods, OnlyWithWorkers: true,
		Why: "its pods are gone before the state of the machines is saved; the destination's gardenlet starts it " +
			"after the hand-over, when the machines are restored. Its lease is in the seed, and would not keep two " +
			"of them apart",
	},
	{
		Name: steps.ClusterAutoscaler, Deployment: v1beta1constants.DeploymentNameClusterAutoscaler, Sign: pods,
		OnlyWithWorkers: true,
		Why: "stopped before machine-controller-manager, so that nobody asks for a machine in between; the " +
			"destination's gardenlet starts it after the hand-over",
	},
	{
		Name: steps.DependencyWatchdog, Sign: "its access secret", OnlyWithWorkers: true,
		Why: "one in each seed serves all shoots there; without its access to a shoot it does not probe it, and " +
			"scales nothing of it",
	},
	{
		Name: steps.EarlyExtensions, Sign: extensionObjects,
		Why: "migrated and deleted in the source, with their state saved, before the destination restores them",
	},
	{
		Name: steps.Extensions, Sign: extensionObjects,
		Why: "as the early ones; for a shoot with workers the destination's gardenlet restores them after " +
			"the hand-over",
	},
	{
		Name: steps.ControlPlane, Sign: extensionObjects, OnlyWithWorkers: true,
		Why: "the cloud controller manager and the CSI controllers go with the resource; the destination's gardenlet " +
			"restores it after the hand-over",
	},
	{
		Name: steps.Infrastructure, Sign: extensionObjects, OnlyWithWorkers: true,
		Why: "migrated last of all, as in a classic migration; the destination's gardenlet restores it after " +
			"the hand-over",
	},
	{
		Name: steps.Worker, Sign: extensionObjects, OnlyWithWorkers: true,
		Why: "migrated when machine-controller-manager is gone; machine objects are deleted without their " +
			"finalizers, so no machine is",
	},
	{
		Name: steps.NodeExtensions, Sign: extensionObjects, OnlyWithWorkers: true,
		Why: "migrated together with the Worker; what they have put into the shoot keeps running",
	},
	{
		Name: steps.DNSRecords, Sign: extensionObjects,
		Why: "the objects go without finalizers, so no controller deletes a record; only then the " +
			"destination writes it",
	},
	{
		Name: steps.BackupEntry, Sign: extensionObjects,
		Why: "the BackupEntry in the garden names one seed at a time",
	},
	{
		Name: steps.VPNServer, Deployment: v1beta1constants.DeploymentNameVPNSeedServer, Sign: pods,
		OnlyWithWorkers: true,
		Why: "it only serves: the nodes keep a tunnel to each seed, the one to the destination by a " +
			"temporary client",
	},
	{
		Name: steps.KubeAPIServer, Deployment: v1beta1constants.DeploymentNameKubeAPIServer, Sign: pods,
		Why: "both serve the same data, and both name the same address to clients inside of the shoot",
	},
	{
		Name: steps.Etcd, Sign: "its pods",
		Why: "the members of both seeds are one cluster, in which raft permits one leader",
	},
}

// Sets returns the table. The caller owns the slice, not what the owners in it point to.
func Sets() []Set {
	out := make([]Set, len(sets))
	copy(out, sets)
	for i := range out {
		for _, step := range steps.Table() {
			out[i].Owners = append(out[i].Owners, step.Ownership[out[i].Name])
		}
	}
	return out
}

// Get returns the set of the name.
func Get(name steps.Components) (Set, bool) {
	for _, set := range Sets() {
		if set.Name == name {
			return set, true
		}
	}
	return Set{}, false
}

// Exclusive returns the names of the Deployments whose pods must never run in both seeds at the same time, in the order
// of the table.
func Exclusive() []string {
	var out []string
	for _, set := range Sets() {
		if set.Deployment != "" && !set.overlaps() {
			out = append(out, set.Deployment)
		}
	}
	return out
}

func (s Set) overlaps() bool {
	for _, owner := range s.Owners {
		if owner == steps.HeldByBoth {
			return true
		}
	}
	return false
}
