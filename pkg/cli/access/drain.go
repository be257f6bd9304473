// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// Seed returns the seed with the given name.
func (g *Garden) Seed(ctx context.Context, name string) (*gardencorev1beta1.Seed, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := g.Client.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return nil, fmt.Errorf("failed to get Seed %s: %w", name, err)
	}
	return seed, nil
}

// DrainTable returns the table of the shoots in the drain of the seed, or nil if there is none.
func (g *Garden) DrainTable(ctx context.Context, seed string) (*drain.Table, error) {
	configMap := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: drain.TableName(seed)}
	switch err := g.Client.Get(ctx, key, configMap); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("failed to get ConfigMap %s: %w", key, err)
	}
	table, err := drain.DecodeTable(configMap.Data[drain.TableKey])
	if err != nil {
		return nil, fmt.Errorf("failed to read ConfigMap %s: %w", key, err)
	}
	return &table, nil
}
