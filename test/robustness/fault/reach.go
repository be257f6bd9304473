// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/process"
)

// seedTimeout bounds each request to a seed.
const seedTimeout = 20 * time.Second

// NewWorld returns a world in which faults reach the daemons of the landscape, but no shoot yet (see Enter).
func NewWorld(landscape *config.Config, log func(format string, args ...any)) *World {
	return &World{
		Processes: process.NewManager(landscape.State),
		Proc:      "/proc",
		Signal:    unix.Kill,
		Gateway:   GatewayOf,
		Log:       log,
	}
}

// Enter makes the shoot the one that faults hit. It must be at rest on one seed, its source.
func (w *World) Enter(landscape *config.Config, garden client.Client, shoot *gardencorev1beta1.Shoot) error {
	source := ptr.Deref(shoot.Status.SeedName, "")
	if source == "" || ptr.Deref(shoot.Spec.SeedName, "") != source {
		return fmt.Errorf("shoot %s is not at rest on one seed: finish or repair its migration first",
			client.ObjectKeyFromObject(shoot))
	}
	w.Garden = garden
	w.Namespace = shoot.Status.TechnicalID
	w.Etcd = ConnectEtcd(w.Namespace)
	w.Seeds = map[steps.Role]Seed{}
	for _, seed := range landscape.Seeds {
		role := steps.Source
		if seed.Name != source {
			role = steps.Destination
		}
		var err error
		if w.Seeds[role], err = connectSeed(landscape, seed.Name); err != nil {
			return err
		}
	}
	return nil
}

func connectSeed(landscape *config.Config, name string) (Seed, error) {
	kubeconfig := landscape.Kubeconfig(name)
	restConfig, err := apply.RESTConfig(kubeconfig)
	if err != nil {
		return Seed{}, err
	}
	restConfig.Timeout = seedTimeout
	restConfig.WarningHandler = rest.NoWarnings{}
	kube, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return Seed{}, fmt.Errorf("failed to create client for %s: %w", name, err)
	}
	return Seed{Name: name, Kubeconfig: kubeconfig, Kube: kube}, nil
}

// ClearGarden lets the garden continue if a run that was killed has left it stopped. It needs no shoot, and comes
// before anything that asks the garden's API.
func (w *World) ClearGarden(ctx context.Context) error {
	return w.clear(ctx, func(f Fault) bool { return f.Family() == familyGardenStop })
}

// Clear ends all faults that a run that was killed may have left in force.
func (w *World) Clear(ctx context.Context) error {
	return w.clear(ctx, func(f Fault) bool { return f.Course().Lasts > 0 })
}

func (w *World) clear(ctx context.Context, which func(Fault) bool) error {
	var errs []error
	for _, f := range All() {
		if !which(f) {
			continue
		}
		if err := f.Heal(ctx, w); err != nil {
			errs = append(errs, fmt.Errorf("failed to heal what an earlier %s may have left: %w", f.Name(), err))
		}
	}
	return errors.Join(errs...)
}
