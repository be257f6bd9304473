// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// MachinesView is what a seed knows of the machines of a shoot.
type MachinesView struct {
	// Deployments are the MachineDeployments, one for each zone of each worker pool.
	Deployments []machinev1alpha1.MachineDeployment
	// Machines are the Machines of all of them.
	Machines []machinev1alpha1.Machine
}

const (
	// fieldWorkers is where the configuration of an agent says whether it migrates shoots with workers.
	fieldWorkers = "controllers.liveMigration.workers"
	// classically is the way out for a shoot whose workers keep it from going live.
	classically = "remove the intent annotation to migrate classically"
)

// checkWorkers judges the workers by the shoot itself and by the source: what no other destination changes.
func checkWorkers(f Facts) Finding {
	workers := f.Shoot.Spec.Provider.Workers
	switch {
	case v1beta1helper.IsWorkerless(f.Shoot):
		return pass(Workers, "the shoot has no workers")
	case v1beta1helper.IsShootSelfHosted(workers):
		return fail(Workers, classically, "the shoot runs its control plane on its own workers")
	case !steps.MayGoWithWorkers(f.Shoot):
		return fail(Workers, "remove this annotation if the shoot may go with its workers, or "+classically,
			"the shoot has %d worker pools, and its annotation %s is %q", len(workers), steps.AnnotationWithWorkers,
			f.Shoot.Annotations[steps.AnnotationWithWorkers])
	case f.Shoot.Spec.Networking == nil || f.Shoot.Spec.Networking.Nodes == nil:
		return fail(Workers, "get the shoot reconciled, so that the range of its nodes is known, or "+classically,
			"spec.networking.nodes of the shoot is not set")
	}
	if problem := f.permitsWorkers(Workers, f.Source); problem != nil {
		return *problem
	}
	return pass(Workers, "the shoot has %d worker pools, and the agent of seed %s permits that", len(workers),
		f.Source.Name)
}

// checkWorkersInDestination asks the destination for its permission.
func checkWorkersInDestination(f Facts) Finding {
	if problem := f.permitsWorkers(WorkersInDestination, f.Destination); problem != nil {
		return *problem
	}
	return pass(WorkersInDestination, "the agent of seed %s permits shoots with workers", f.Destination.Name)
}

// permitsWorkers returns a finding of the given name unless the agent of the seed has published that it migrates shoots
// with workers. The agent that looks believes its own configuration, too: what it has published may be of before its
// restart.
func (f Facts) permitsWorkers(name Name, seed SeedView) *Finding {
	refused := fail(name, "set "+fieldWorkers+" to true in the configuration of that agent, choose another "+
		"destination, or "+classically, "the agent of seed %s does not migrate shoots with workers", seed.Name)
	if f.ForbidsWorkers && seed.Name == f.OwnSeed {
		return &refused
	}
	if seed.Seed == nil {
		finding := unknown(name, remedyRead, "seed %s could not be read: %v", seed.Name, seed.Error)
		return &finding
	}
	value := seed.Seed.Annotations[seedfacts.AnnotationWorkers]
	permits, err := strconv.ParseBool(value)
	switch {
	case err != nil:
		finding := unknown(name, remedyPublish,
			"the agent of seed %s has not published whether it migrates shoots with workers (its annotation %s is %q)",
			seed.Name, seedfacts.AnnotationWorkers, value)
		return &finding
	case !permits:
		return &refused
	}
	return nil
}

// goesWithWorkers reports whether the shoot has workers and nothing that checkWorkers knows of keeps them.
func goesWithWorkers(f Facts) bool {
	return !v1beta1helper.IsWorkerless(f.Shoot) && checkWorkers(f).Status == Pass
}

// checkOfWorkers makes the checks that only shoots with workers need, if the shoot goes with them at all. What those of
// the source look at passes on its own account in the course of an ordinary day, and the source's controllers continue
// with it until step 7. Therefore they are not made again by the destination.
func checkOfWorkers(f Facts) []Finding {
	if !goesWithWorkers(f) {
		return nil
	}
	findings := []Finding{checkWorkersInDestination(f)}
	if f.ownRole() == steps.Destination {
		return findings
	}
	findings = append(findings, checkVPN(f), checkTLSTermination(f))
	if f.MachinesRead {
		findings = append(findings, checkMachines(f))
	}
	return findings
}

// checkVPN warns of what nobody has tried. It goes when somebody has.
func checkVPN(f Facts) Finding {
	if !v1beta1helper.IsHAVPNEnabled(f.Shoot) {
		return pass(VPN, "the VPN is not highly available")
	}
	finding := pass(VPN, "the VPN is highly available: no migration with one has been run yet, and kubectl exec and "+
		"logs, webhooks and aggregated APIs in the shoot depend on it")
	finding.Status, finding.Remedy = Warn, "try it with a shoot that may be disturbed first ("+pages.Compatibility+")"
	return finding
}

// checkMachines asks for machines that are what their deployments want. A machine whose node is not ready is carried
// over as it is: the timeout after which it counts as failed begins again in the destination.
func checkMachines(f Facts) Finding {
	const remedy = "wait until machine-controller-manager is done, or fix what keeps it (Machines in the shoot's " +
		"namespace of the source)"
	if f.MachinesError != nil {
		return unknown(Machines, "let the agent list the machines in its seed (chart livecpm-agent)",
			"the machines could not be read: %v", f.MachinesError)
	}

	var unsettled []string
	if updates := f.Shoot.Status.InPlaceUpdates; updates != nil && updates.PendingWorkerUpdates != nil {
		pending := slices.Concat(updates.PendingWorkerUpdates.AutoInPlaceUpdate,
			updates.PendingWorkerUpdates.ManualInPlaceUpdate)
		if len(pending) > 0 {
			unsettled = append(unsettled, "in-place updates are pending in pools "+strings.Join(pending, ", "))
		}
	}
	for _, deployment := range f.Machines.Deployments {
		if state := unsettledDeployment(deployment); state != "" {
			unsettled = append(unsettled, fmt.Sprintf("MachineDeployment %s %s", deployment.Name, state))
		}
	}
	carried := 0
	for _, machine := range f.Machines.Machines {
		phase := machine.Status.CurrentStatus.Phase
		switch {
		case machine.DeletionTimestamp != nil:
			unsettled = append(unsettled, fmt.Sprintf("Machine %s is being deleted", machine.Name))
		case phase == machinev1alpha1.MachineUnknown:
			carried++
		case phase != machinev1alpha1.MachineRunning && phase != machinev1alpha1.MachineAvailable:
			unsettled = append(unsettled, fmt.Sprintf("Machine %s is %q", machine.Name, phase))
		}
	}
	if len(unsettled) > 0 {
		return fail(Machines, remedy, "%s", strings.Join(unsettled, ", "))
	}
	if carried > 0 {
		return pass(Machines, "%d machines are settled, %d of them with nodes that are not ready",
			len(f.Machines.Machines), carried)
	}
	return pass(Machines, "%d machines are settled", len(f.Machines.Machines))
}

// unsettledDeployment tells what is going on in the deployment; it is empty if nothing is.
func unsettledDeployment(deployment machinev1alpha1.MachineDeployment) string {
	var (
		spec, status = deployment.Spec, deployment.Status
		observed     = status.ObservedGeneration >= deployment.Generation
	)
	switch {
	case deployment.DeletionTimestamp != nil:
		return "is being deleted"
	case !observed:
		return "has not been reconciled since its last change"
	case status.UpdatedReplicas < status.Replicas:
		return fmt.Sprintf("is rolling: %d of %d machines are up to date", status.UpdatedReplicas, status.Replicas)
	case status.Replicas != spec.Replicas:
		return fmt.Sprintf("is scaling from %d to %d machines", status.Replicas, spec.Replicas)
	}
	return ""
}
