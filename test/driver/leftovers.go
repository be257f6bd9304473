// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/proof/inventory"
)

// Inventory lists everything that a seed holds of a shoot.
func Inventory(ctx context.Context, seed *Cluster, namespace string) ([]inventory.Object, error) {
	return inventory.List(ctx, seed.REST, seed.Name, namespace)
}

// Restored returns what the disruption budgets and the DNSRecords in the namespace of a shoot say, sorted. A migration
// changes those of the etcds and those by which clients come, and changes them back, so that their generations do not
// tell. Of the annotations only livecpm's count: what Gardener asks for, and when, is no property of a record.
func Restored(ctx context.Context, seed *Cluster, namespace string) ([]string, error) {
	budgets := &policyv1.PodDisruptionBudgetList{}
	if err := seed.Client.List(ctx, budgets, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the disruption budgets in %s: %w", seed.Name, err)
	}
	records := &extensionsv1alpha1.DNSRecordList{}
	if err := seed.Client.List(ctx, records, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the DNSRecords in %s: %w", seed.Name, err)
	}
	var out []string
	says := func(kind string, object client.Object, spec any) error {
		ours := maps.Clone(object.GetAnnotations())
		maps.DeleteFunc(ours, func(key, _ string) bool { return !strings.Contains(key, "livecpm") })
		said, err := json.Marshal([]any{spec, ours})
		if err != nil {
			return fmt.Errorf("failed to compare %s %s: %w", kind, client.ObjectKeyFromObject(object), err)
		}
		out = append(out, fmt.Sprintf("%s %s %s", kind, object.GetName(), said))
		return nil
	}
	for i := range budgets.Items {
		if err := says("PodDisruptionBudget", &budgets.Items[i], budgets.Items[i].Spec); err != nil {
			return nil, err
		}
	}
	for i := range records.Items {
		if err := says("DNSRecord", &records.Items[i], records.Items[i].Spec); err != nil {
			return nil, err
		}
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
