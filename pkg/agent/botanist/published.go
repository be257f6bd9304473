// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadOnlyPublished returns a client of the garden that does not write the ConfigMaps by which a shoot publishes its
// certificate authorities. Others trust the shoot by them, so Gardener lets gardenlets write them and nobody else
// (webhook update-restriction.gardener.cloud), not even if nothing is changed. Gardener's library writes them whenever
// it prepares a control plane.
//
// There is nothing to write for an agent: a shoot keeps its authorities in a migration, and the source's gardenlet has
// published them. Instead the client compares. A control plane with other authorities than its clients trust must not
// come up, so that is an error. All else (a ConfigMap that is missing, a label, an additional key) is left to the
// gardenlet's next reconciliation.
func ReadOnlyPublished(c client.Client) client.Client {
	return &readOnlyPublished{Client: c}
}

type readOnlyPublished struct {
	client.Client
}

func (c *readOnlyPublished) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	if configMap, ok := published(object); ok {
		return c.compare(ctx, configMap)
	}
	return c.Client.Create(ctx, object, opts...)
}

func (c *readOnlyPublished) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	if configMap, ok := published(object); ok {
		return c.compare(ctx, configMap)
	}
	return c.Client.Patch(ctx, object, patch, opts...)
}

func (c *readOnlyPublished) compare(ctx context.Context, wanted *corev1.ConfigMap) error {
	key := client.ObjectKeyFromObject(wanted)
	current := &corev1.ConfigMap{}
	if err := c.Get(ctx, key, current); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("failed to read ConfigMap %s: %w", key, err)
	}
	for _, name := range slices.Sorted(maps.Keys(current.Data)) {
		if value, ok := wanted.Data[name]; ok && value != current.Data[name] {
			return fmt.Errorf(
				"ConfigMap %s publishes another %s than this control plane has, and only a gardenlet may change it: "+
					"find out which of them is the shoot's; after an abort, a reconciliation publishes what "+
					"the source has",
				key, name)
		}
	}
	return nil
}

func published(object client.Object) (*corev1.ConfigMap, bool) {
	configMap, ok := object.(*corev1.ConfigMap)
	return configMap, ok && configMap.Labels[v1beta1constants.LabelUpdateRestriction] == "true"
}
