// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/proof/inventory"
)

// Inventory lists everything that a seed holds of a shoot.
func Inventory(ctx context.Context, seed *Cluster, namespace string) ([]inventory.Object, error) {
	return inventory.List(ctx, seed.REST, seed.Name, namespace)
}

// Budgets returns what the disruption budgets in the namespace of a shoot say, sorted. A migration changes those of the
// etcds and changes them back, so their generations do not tell.
func Budgets(ctx context.Context, seed *Cluster, namespace string) ([]string, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := seed.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the disruption budgets in %s: %w", seed.Name, err)
	}
	var out []string
	for _, budget := range list.Items {
		spec, err := json.Marshal(budget.Spec)
		if err != nil {
			return nil, fmt.Errorf("failed to compare PodDisruptionBudget %s: %w",
				client.ObjectKeyFromObject(&budget), err)
		}
		out = append(out, budget.Name+" "+string(spec))
	}
	slices.Sort(out)
	return out, nil
}

// Leftovers names what a seed still holds of a shoot. The machines of a shoot with workers are not the seed's, though
// one of the seeds plays the cloud that they are in.
func Leftovers(ctx context.Context, seed *Cluster, namespace string) ([]string, error) {
	objects, err := Inventory(ctx, seed, namespace)
	return inventory.Names(
		slices.DeleteFunc(objects, func(object inventory.Object) bool { return InCloud(object, namespace) })), err
}

// InCloud reports whether the object is what provider-local keeps for a shoot where its machines are: a namespace with
// all that is in it, and pools of addresses.
func InCloud(object inventory.Object, namespace string) bool {
	machines := MachineNamespace(namespace)
	return object.Namespace == machines || object.Namespace == "" &&
		(object.Resource == "namespaces" && object.Name == machines ||
			object.Resource == "ippools" && strings.HasPrefix(object.Name, "shoot-machine-pods-"+namespace+"-"))
}

// MachineNamespace is where provider-local keeps the machines of a shoot.
func MachineNamespace(namespace string) string { return "infra-" + namespace }
