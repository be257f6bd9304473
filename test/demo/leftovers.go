// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/proof/inventory"
)

// leftovers lists what a seed still holds of a shoot. The machines of a shoot with workers are not the seed's, though
// one of the seeds plays the cloud that they are in.
func leftovers(ctx context.Context, seed *cluster, namespace string) ([]string, error) {
	objects, err := inventory.List(ctx, seed.rest, seed.name, namespace)
	return inventory.Names(
		slices.DeleteFunc(objects, func(object inventory.Object) bool { return InCloud(object, namespace) })), err
}

// InCloud reports whether the object is what provider-local keeps for a shoot where its machines are: a namespace with
// all that is in it, and pools of addresses.
func InCloud(object inventory.Object, namespace string) bool {
	machines := machineNamespace(namespace)
	return object.Namespace == machines || object.Namespace == "" &&
		(object.Resource == "namespaces" && object.Name == machines ||
			object.Resource == "ippools" && strings.HasPrefix(object.Name, "shoot-machine-pods-"+namespace+"-"))
}

// machineNamespace is where provider-local keeps the machines of a shoot.
func machineNamespace(namespace string) string { return "infra-" + namespace }
