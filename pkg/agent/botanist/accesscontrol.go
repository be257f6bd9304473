// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/shared"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Extensions for access control restrict who may reach a kube-apiserver at the ingress gateway of its seed, for example
// gardener-extension-acl. While two kube-apiservers run, each seed needs its own: what such an extension manages is in
// its seed, and the seeds do not disturb each other. So these extensions have another lifecycle in a live migration
// than the one that they are registered with:
//
//   - The source keeps them until its kube-apiserver has stopped. It does not migrate them in step 3, nor with the
//     others in step 7, while clients can still come.
//   - The destination restores them before anybody can reach its kube-apiserver.

// AccessControl returns the types of the botanist's extensions for access control, sorted. It is empty if the shoot has
// none.
func (f *Factory) AccessControl(b *Botanist) []string {
	if b.Operation == nil || b.Shoot == nil || b.Shoot.Components == nil ||
		b.Shoot.Components.Extensions.Extension == nil {
		return nil
	}
	var types []string
	for extensionType := range b.Shoot.Components.Extensions.Extension.Extensions() {
		if slices.Contains(f.options.AccessControl, extensionType) {
			types = append(types, extensionType)
		}
	}
	slices.Sort(types)
	return types
}

// Extensions returns the types of the shoot's extensions, sorted: those that the Shoot names, and those that are
// enabled for all shoots (Gardener's mergeExtensions).
func (f *Factory) Extensions(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]string, error) {
	extensions, err := shared.NewExtension(ctx, logr.Discard(), f.options.GardenClient,
		f.options.SeedClientSet.Client(), v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
		extensionsv1alpha1.ExtensionClassShoot, shoot.Spec.Extensions, v1beta1helper.IsWorkerless(shoot))
	if err != nil {
		return nil, fmt.Errorf("failed to find out which extensions shoot %s has: %w",
			client.ObjectKeyFromObject(shoot), err)
	}
	return slices.Sorted(maps.Keys(extensions.Extensions())), nil
}

// keepAccessControl gives these extensions their lifecycle. The map is the one that the botanist's component works
// with.
func (f *Factory) keepAccessControl(b *Botanist, m *migration.Migration) {
	reconcile := gardencorev1beta1.AfterKubeAPIServer
	if m.Role == steps.Destination {
		reconcile = gardencorev1beta1.BeforeKubeAPIServer
	}
	for _, extensionType := range f.AccessControl(b) {
		all := b.Shoot.Components.Extensions.Extension.Extensions()
		extension := all[extensionType]
		extension.Lifecycle = &gardencorev1beta1.ControllerResourceLifecycle{
			Reconcile: new(reconcile),
			Migrate:   new(gardencorev1beta1.AfterKubeAPIServer),
			Delete:    new(gardencorev1beta1.AfterKubeAPIServer),
		}
		all[extensionType] = extension
	}
}
