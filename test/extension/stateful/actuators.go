// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"context"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/extension"
	"github.com/gardener/gardener/extensions/pkg/controller/network"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
)

// ExtensionActuator returns the keeper as an actuator of Extensions.
func ExtensionActuator(keeper *Keeper) extension.Actuator { return extensionActuator{keeper} }

type extensionActuator struct{ keeper *Keeper }

func (a extensionActuator) Reconcile(ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Extension) error {
	return a.keeper.Reconcile(ctx, object)
}

func (a extensionActuator) Delete(ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Extension) error {
	return a.keeper.Delete(ctx, object)
}

func (a extensionActuator) ForceDelete(ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Extension) error {
	return a.keeper.Delete(ctx, object)
}

func (a extensionActuator) Migrate(ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Extension) error {
	return a.keeper.Migrate(ctx, object)
}

func (a extensionActuator) Restore(ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Extension) error {
	return a.keeper.Restore(ctx, object)
}

// NetworkActuator returns the keeper as an actuator of Networks.
func NetworkActuator(keeper *Keeper) network.Actuator { return networkActuator{keeper} }

type networkActuator struct{ keeper *Keeper }

func (a networkActuator) Reconcile(
	ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Network, _ *extensionscontroller.Cluster,
) error {
	return a.keeper.Reconcile(ctx, object)
}

func (a networkActuator) Delete(
	ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Network, _ *extensionscontroller.Cluster,
) error {
	return a.keeper.Delete(ctx, object)
}

func (a networkActuator) ForceDelete(
	ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Network, _ *extensionscontroller.Cluster,
) error {
	return a.keeper.Delete(ctx, object)
}

func (a networkActuator) Migrate(
	ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Network, _ *extensionscontroller.Cluster,
) error {
	return a.keeper.Migrate(ctx, object)
}

func (a networkActuator) Restore(
	ctx context.Context, _ logr.Logger, object *extensionsv1alpha1.Network, _ *extensionscontroller.Cluster,
) error {
	return a.keeper.Restore(ctx, object)
}
