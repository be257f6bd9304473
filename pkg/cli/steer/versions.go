// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// ConfirmVersions lets a migration beyond the point of no return continue although gardenlets and agents have these
// Gardener versions, which may differ in the patch release only.
func (s Steerer) ConfirmVersions(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, versions []string,
) (Result, error) {
	migration := s.Summary(shoot)
	out := s.result(shoot, migration.String())
	versions = slices.Compact(slices.Sorted(slices.Values(versions)))
	switch {
	case !steps.InFlight(shoot):
		return out, exit.Refused("%s has no live migration in flight; its state is: %s", nameOf(shoot), migration)
	case !steps.PastReturn(shoot):
		return out, exit.Refused("versions of %s cannot be confirmed before the point of no return: the migration "+
			"waits without harm until gardenlets and agents have the same version; its state is: %s", nameOf(shoot),
			migration)
	case len(versions) < 2:
		return out, exit.Refused("name all versions that the message of the condition names, at least two")
	}
	if err := steps.SamePatchLine(versions); err != nil {
		return out, exit.Refused("these versions cannot be confirmed: %w", err)
	}

	value := strings.Join(versions, ",")
	write, err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationConfirmVersions: value})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(steps.AnnotationConfirmVersions, value)}
	out.Not = []string{
		"versions that are not named still hold the migration",
		"new migrations are not started while versions differ",
	}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}
