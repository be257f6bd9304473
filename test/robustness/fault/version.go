// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const familyVersionSkew = "version-skew"

// skewSuffix turns a version into another one that tells what it was.
const skewSuffix = "-skew"

// versionSkew lets a Seed report another version of its gardenlet. The gardenlet writes the true one when the Seed's
// specification changes, when it starts or has reconciled the Seed since, and once per sync period (an hour). The false
// one stays for as long as the fault lasts unless that happens meanwhile, which InForce tells.
type versionSkew struct {
	fault

	role steps.Role
}

func versionSkews() []Fault {
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults, &versionSkew{
			fault{name: familyVersionSkew + "-" + string(role), family: familyVersionSkew, span: whole,
				course: Course{Lasts: 45 * time.Second, Early: true}}, role,
		})
	}
	return faults
}

// Inject implements Fault.
func (f *versionSkew) Inject(ctx context.Context, targets *Targets) error {
	if err := targets.on([]steps.Role{f.role}, func(seed Seed) error {
		return targets.changeVersion(ctx,
			seed.Name, func(version string) string { return strings.TrimSuffix(version, skewSuffix) + skewSuffix })
	}); err != nil {
		return err
	}
	if err := eventually(ctx, "the Seed reports another version", func(ctx context.Context) (bool, error) {
		return f.InForce(ctx, targets)
	}); err != nil {
		return err
	}
	targets.Prove("Seed %s reports another version", targets.Seeds[f.role].Name)
	return nil
}

// Heal implements Fault.
func (f *versionSkew) Heal(ctx context.Context, targets *Targets) error {
	var errs []error
	for _, seed := range targets.Seeds {
		errs = append(errs, targets.changeVersion(ctx,
			seed.Name, func(version string) string { return strings.TrimSuffix(version, skewSuffix) }))
	}
	return errors.Join(errs...)
}

// InForce implements Fleeting.
func (f *versionSkew) InForce(ctx context.Context, targets *Targets) (bool, error) {
	seed, err := targets.seed(ctx, targets.Seeds[f.role].Name)
	if err != nil {
		return false, err
	}
	return seed.Status.Gardener != nil && strings.HasSuffix(seed.Status.Gardener.Version, skewSuffix), nil
}

func (t *Targets) changeVersion(ctx context.Context, name string, change func(string) string) error {
	seed, err := t.seed(ctx, name)
	if err != nil {
		return err
	}
	if seed.Status.Gardener == nil || seed.Status.Gardener.Version == "" {
		return fmt.Errorf("the version of the gardenlet is missing in the status of Seed %s", name)
	}
	version := change(seed.Status.Gardener.Version)
	if version == seed.Status.Gardener.Version {
		return nil
	}
	t.Log("Seed %s reports gardenlet version %s instead of %s", name, version, seed.Status.Gardener.Version)
	patch := client.MergeFrom(seed.DeepCopy())
	seed.Status.Gardener.Version = version
	if err := t.Garden.Status().Patch(ctx, seed, patch); err != nil {
		return fmt.Errorf("failed to patch status of Seed %s: %w", name, err)
	}
	return nil
}

func (t *Targets) seed(ctx context.Context, name string) (*gardencorev1beta1.Seed, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := t.Garden.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return nil, fmt.Errorf("failed to get Seed %s: %w", name, err)
	}
	return seed, nil
}
