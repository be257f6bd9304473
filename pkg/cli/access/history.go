// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/history"
)

// History returns the record of live migrations that livecpm-controller-manager keeps; it is empty if there is none.
func (g *Garden) History(ctx context.Context) (history.History, error) {
	configMap := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: history.ConfigMapName}
	if err := g.Client.Get(ctx, key, configMap); err != nil && !apierrors.IsNotFound(err) {
		return history.History{}, fmt.Errorf("failed to get ConfigMap %s: %w", key, err)
	}
	out, err := history.Decode(configMap.Data[history.Key])
	if err != nil {
		return history.History{}, fmt.Errorf("failed to read ConfigMap %s: %w", key, err)
	}
	return out, nil
}
