// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/livecpm/livecpm/pkg/inventory"
)

// leftovers lists what a seed still holds of a shoot.
func leftovers(ctx context.Context, seed *cluster, namespace string) ([]string, error) {
	objects, err := inventory.List(ctx, seed.rest, seed.name, namespace)
	return inventory.Names(objects), err
}
