// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ahead keeps Shoots that are newer than those in the cache: what this process has written, and what it found when it
// began. Without it, a cache that lags behind would hide moves that count for the budget.
type ahead map[client.ObjectKey]*gardencorev1beta1.Shoot

// keep records a Shoot as the API server has returned it.
func (a ahead) keep(shoot *gardencorev1beta1.Shoot) {
	a[client.ObjectKeyFromObject(shoot)] = shoot
}

// merge replaces what is older in the list, which it may change, and forgets what the cache has caught up with or what
// is gone.
func (a ahead) merge(shoots []gardencorev1beta1.Shoot) {
	if len(a) == 0 {
		return
	}
	found := make(map[client.ObjectKey]bool, len(a))
	for i := range shoots {
		key := client.ObjectKeyFromObject(&shoots[i])
		newer, ok := a[key]
		if !ok {
			continue
		}
		if newer.UID != shoots[i].UID || !behind(&shoots[i], newer) {
			continue
		}
		found[key] = true
		shoots[i] = *newer
	}
	for key := range a {
		if !found[key] {
			delete(a, key)
		}
	}
}

// behind reports whether the first is an older version of the second. If the versions cannot be compared it is taken
// for up to date, as it is sooner or later.
func behind(cached, newer *gardencorev1beta1.Shoot) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, newer.ResourceVersion)
	return err == nil && order < 0
}
