// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/extension"
	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// migrateExtensions hands the extensions that act before the kube-apiserver over: their controllers release what they
// manage outside of the seed, and their state moves to the ShootState. The destination restores them before it starts
// its kube-apiserver.
func (s *source) migrateExtensions(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	b, err := s.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeMigrate)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := flows.Run(ctx, m, steps.ReasonMigratingExtensions, s.extensionsGraph(m, b)); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("Extensions that act before the kube-apiserver are migrated and their state is persisted"), nil
}

func (s *source) extensionsGraph(m *migration.Migration, b *botanist.Botanist) *flow.Graph {
	g := flow.NewGraph("migration of extensions before kube-apiserver")
	s.ControlPlane.AddEarlyExtensions(g, controlplane.EarlyExtensions{
		Log: m.Log, Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		Needed: func(obj extensionsv1alpha1.Object) bool {
			return neededBeforeKubeAPIServer(b.Shoot.Components.Extensions.Extension.Extensions(), obj)
		},
		Persist: func(ctx context.Context) error {
			return s.ShootStates.Merge(ctx, m.Shoot)
		},
	})
	return g
}

// neededBeforeKubeAPIServer reports whether the destination restores the extension before it starts its kube-apiserver.
// The lifecycle of a migration says something else: which extensions have to be migrated before the source's
// kube-apiserver is deleted. These are almost all, and step 7 migrates them with the rest of the source.
func neededBeforeKubeAPIServer(all map[string]extension.Extension, obj extensionsv1alpha1.Object) bool {
	wanted, ok := all[obj.GetExtensionSpec().GetExtensionType()]
	return ok && wanted.Lifecycle != nil && wanted.Lifecycle.Reconcile != nil &&
		*wanted.Lifecycle.Reconcile == gardencorev1beta1.BeforeKubeAPIServer
}
