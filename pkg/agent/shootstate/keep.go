// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// spentPart is which part of the lead may be spent before the ShootState is dated again. Each date is a write of an
// object that may have a megabyte, so not every pass makes one.
const spentPart = 24

// Keep dates the ShootState ahead again, so that no gardenlet replaces it however long a migration is held. A date that
// is not ahead says that somebody else has written the ShootState. Then it calls repair unless the ShootState still
// holds what was taken; repair is nil in a seed that cannot take it again, and the difference is returned.
//
// It is to be called on every pass. While nothing is to be done, it reads the metadata only.
func (s *ShootStates) Keep(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, repair func(ctx context.Context) error,
) error {
	key := client.ObjectKeyFromObject(shoot)
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(gardencorev1beta1.SchemeGroupVersion.WithKind("ShootState"))
	switch err := s.options.GardenAPIReader.Get(ctx, key, metadata); {
	case apierrors.IsNotFound(err) && repair != nil:
		return repair(ctx)
	case err != nil:
		return fmt.Errorf("failed to read when ShootState %s was dated: %w", key, err)
	case s.farAhead(metadata) && (repair == nil || metadata.Annotations[AnnotationTaken] != ""):
		return nil
	}

	state, err := s.read(ctx, shoot)
	if err != nil {
		return err
	}
	if repair != nil && (compare(state) != nil || checkSecrets(state) != nil) {
		return repair(ctx)
	}
	if err := s.patch(ctx, state, func() { s.date(state, s.options.Clock.Now().Add(s.options.Lead)) }); err != nil {
		return err
	}
	return compare(state)
}

// farAhead reports whether next to nothing of the lead is spent.
func (s *ShootStates) farAhead(state client.Object) bool {
	timestamp, err := timestampOf(state)
	return err == nil &&
		timestamp.Sub(s.options.Clock.Now()) > s.options.Lead-s.options.Lead/spentPart
}

func (s *ShootStates) date(state *gardencorev1beta1.ShootState, at time.Time) {
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, v1beta1constants.GardenerTimestamp, at.UTC().Format(time.RFC3339))
}

func timestampOf(state client.Object) (time.Time, error) {
	timestamp, err := time.Parse(time.RFC3339, state.GetAnnotations()[v1beta1constants.GardenerTimestamp])
	if err != nil {
		return time.Time{}, fmt.Errorf("failed to parse timestamp of ShootState %s: %w",
			client.ObjectKeyFromObject(state), err)
	}
	return timestamp, nil
}
