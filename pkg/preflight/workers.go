// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// MachinesView is what a seed knows of the machines of a shoot.
type MachinesView struct {
	// Deployments are the MachineDeployments, one for each zone of each worker pool.
	Deployments []machinev1alpha1.MachineDeployment
	// Machines are the Machines of all of them.
	Machines []machinev1alpha1.Machine
}

func checkWorkerless(f Facts) Finding {
	const classically = "remove the intent annotation to migrate classically"

	workers := f.Shoot.Spec.Provider.Workers
	switch {
	case v1beta1helper.IsWorkerless(f.Shoot):
		return pass(Workerless, "the shoot has no workers")
	case v1beta1helper.IsShootSelfHosted(workers):
		return fail(Workerless, classically, "the shoot runs its control plane on its own workers")
	case !f.PermitsWorkers:
		return fail(Workerless,
			classically+"; shoots with workers are migrated live only if the agents of both seeds permit it "+
				"(controllers.liveMigration.workers)",
			"the shoot has %d worker pools", len(workers))
	case f.Shoot.Spec.Networking == nil || f.Shoot.Spec.Networking.Nodes == nil:
		return fail(Workerless, "get the shoot reconciled, so that the range of its nodes is known, or "+classically,
			"spec.networking.nodes of the shoot is not set")
	}
	return pass(Workerless, "the shoot has %d worker pools, and the agent of seed %s permits that", len(workers),
		f.OwnSeed)
}

// checkWorkers makes the checks that only shoots with workers need. What they look at passes on its own account in the
// course of an ordinary day, and the source's controllers continue with it until step 7. Therefore they are made once,
// by the source before it begins.
func checkWorkers(f Facts) []Finding {
	workers := f.Shoot.Spec.Provider.Workers
	if len(workers) == 0 || v1beta1helper.IsShootSelfHosted(workers) || !f.PermitsWorkers ||
		f.ownRole() != steps.Source {
		return nil
	}
	findings := []Finding{checkTLSTermination(f)}
	if f.MachinesRead {
		findings = append(findings, checkMachines(f))
	}
	return findings
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
