// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PersistShootState writes the state of the shoot's control plane in this seed into its ShootState and reads it back.
//
// As soon as spec.seedName names the destination, the ShootState controller of the destination's gardenlet may replace
// the state by what it finds in its own seed, which is nothing. It only does so when its sync period has passed since
// the timestamp annotation; hence the timestamp is written ahead of the time that a migration can take.
//
// With overwrite the state replaces what was stored before, which is right as long as the control plane is complete.
// Without, entries are added and replaced one by one and what is gone from the seed is kept.
func (d *Deps) PersistShootState(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, namespace string, overwrite bool,
) error {
	ahead := aheadClock{Clock: d.Clock, lead: d.Timings.ShootStateLead}
	if err := shootstate.Deploy(ctx, ahead, d.GardenClient, d.SeedClientSet.Client(), shoot, namespace,
		overwrite); err != nil {
		return fmt.Errorf("failed to write ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}

	state := &gardencorev1beta1.ShootState{}
	if err := d.GardenAPIReader.Get(ctx, client.ObjectKeyFromObject(shoot), state); err != nil {
		return fmt.Errorf("failed to read back ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return CheckShootState(state, d.Clock.Now())
}

// requiredSecrets are those without which a control plane in another seed would not be the same cluster any more. They
// are named by the label that the secrets manager puts on them.
var requiredSecrets = []string{
	v1beta1constants.SecretNameCACluster,
	v1beta1constants.SecretNameCAClient,
	v1beta1constants.SecretNameCAETCD,
	v1beta1constants.SecretNameCAETCDPeer,
	v1beta1constants.SecretNameETCDEncryptionKey,
	v1beta1constants.SecretNameServiceAccountKey,
}

// CheckShootState tells whether the ShootState holds what a destination cannot do without, and whether its timestamp
// still protects it from being replaced.
func CheckShootState(state *gardencorev1beta1.ShootState, now time.Time) error {
	key := client.ObjectKeyFromObject(state)

	timestamp, err := time.Parse(time.RFC3339, state.Annotations[v1beta1constants.GardenerTimestamp])
	if err != nil {
		return fmt.Errorf("failed to parse timestamp of ShootState %s: %w", key, err)
	}
	if !timestamp.After(now) {
		return fmt.Errorf("timestamp %s of ShootState %s is not ahead of now, a gardenlet may replace the state",
			timestamp.Format(time.RFC3339), key)
	}

	found := sets.New[string]()
	for _, data := range state.Spec.Gardener {
		if data.Type == v1beta1constants.DataTypeSecret && len(data.Data.Raw) > 0 {
			found.Insert(data.Labels[secretsmanager.LabelKeyName])
		}
	}
	if missing := sets.New(requiredSecrets...).Difference(found); missing.Len() > 0 {
		return fmt.Errorf("ShootState %s lacks secrets %v", key, sets.List(missing))
	}
	return nil
}

type aheadClock struct {
	clock.Clock
	lead time.Duration
}

// Now returns a time that is ahead by the lead.
func (c aheadClock) Now() time.Time { return c.Clock.Now().Add(c.lead) }

// RenewShootState brings the ShootState back to what the gardenlet of this seed makes of it: a backup of now, whose
// next one is due after the ordinary period, or none where the gardenlet keeps none.
func (d *Deps) RenewShootState(ctx context.Context, shoot *gardencorev1beta1.Shoot, namespace string, keep bool) error {
	if !keep {
		if err := shootstate.Delete(ctx, d.GardenClient, shoot); err != nil {
			return fmt.Errorf("failed to delete ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
		}
		return nil
	}
	if err := shootstate.Deploy(ctx, d.Clock, d.GardenClient, d.SeedClientSet.Client(), shoot, namespace,
		true); err != nil {
		return fmt.Errorf("failed to write ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return nil
}

// DateShootState makes the ShootState one of now, without another change. The destination's gardenlet restores from it,
// and after that its periodic backup is due when it always is.
func (d *Deps) DateShootState(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	state := &gardencorev1beta1.ShootState{}
	key := client.ObjectKeyFromObject(shoot)
	if err := d.GardenAPIReader.Get(ctx, key, state); err != nil {
		return fmt.Errorf("failed to read ShootState %s: %w", key, err)
	}
	patch := client.MergeFrom(state.DeepCopy())
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, v1beta1constants.GardenerTimestamp,
		d.Clock.Now().UTC().Format(time.RFC3339))
	if err := d.GardenClient.Patch(ctx, state, patch); err != nil {
		return fmt.Errorf("failed to date ShootState %s: %w", key, err)
	}
	return nil
}

// KeepsShootState tells whether the gardenlet of this seed backs ShootStates up periodically. One that does not deletes
// the ShootState after a restoration.
func (d *Deps) KeepsShootState(ctx context.Context) (bool, error) {
	managed, err := gardenerutils.ClusterIsManagedByManagedSeed(ctx, d.GardenAPIReader, d.SeedName())
	if err != nil {
		return false, fmt.Errorf("failed to tell whether seed %s is a managed seed: %w", d.SeedName(), err)
	}
	controllers := d.GardenletConfig.Controllers
	return !managed && controllers != nil && controllers.ShootState != nil &&
		ptr.Deref(controllers.ShootState.ConcurrentSyncs, 0) > 0, nil
}
