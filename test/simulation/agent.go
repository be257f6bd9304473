// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// Agent is an agent in a real garden. All is required.
type Agent struct {
	// SeedName is the name of its seed.
	SeedName string
	// GardenClient writes to the garden, GardenAPIReader reads from it without a cache.
	GardenClient    client.Client
	GardenAPIReader client.Reader
	// Recorder records events at the Shoots.
	Recorder events.EventRecorder
	// Config is the configuration of the controller.
	Config configv1alpha1.LiveMigrationController
	// Version is the Gardener version that the agent is built with.
	Version string
	// Actions are what the roles do.
	Actions map[steps.Role]migration.Actions
}

// NewReconciler returns the real frame of an agent, with the real gate and the real checks.
func NewReconciler(a Agent) (*agent.Reconciler, error) {
	checker, err := NewChecker(a.GardenAPIReader, a.SeedName, a.Version)
	if err != nil {
		return nil, err
	}
	return agent.New(agent.Options{
		GardenClient:    a.GardenClient,
		GardenAPIReader: a.GardenAPIReader,
		Recorder:        a.Recorder,
		Clock:           clock.RealClock{},
		SeedName:        a.SeedName,
		Config:          a.Config,
		Actions:         a.Actions,
		Gate:            gate.New(a.GardenClient, a.GardenAPIReader),
		Preflight:       checker,
	})
}

// NewChecker returns the real checks of an agent in the seed, which is built with the given Gardener version. They look
// at a real garden, at etcds of which nothing is wrong, and at a specification that is rolled out.
func NewChecker(garden client.Reader, seedName, version string) (*preflight.Checker, error) {
	return preflight.New(preflight.Options{
		Reader: garden, OwnSeed: seedName, Gardenlet: Gardenlet(seedName), Version: version,
		Protocols: steps.OwnProtocols(),
		Etcds:     HealthyEtcds(seedName), Running: RolledOut, Rollout: GardenletRolledOut,
		Extensions: NoExtensions, Machines: NoMachines, TLSEndsAtGateway: EndsTLS,
		Clock: clock.RealClock{},
	})
}

// NoExtensions returns that a shoot has no extensions.
func NoExtensions(context.Context, *gardencorev1beta1.Shoot) ([]string, error) { return nil, nil }

// NoMachines returns that a shoot has no machines.
func NoMachines(context.Context, *gardencorev1beta1.Shoot) (preflight.MachinesView, error) {
	return preflight.MachinesView{}, nil
}

// EndsTLS returns that the ingress gateway ends the TLS of a shoot's clients.
func EndsTLS(context.Context, *gardencorev1beta1.Shoot) (bool, error) { return true, nil }

// RolledOut returns the Shoot as its gardenlet has rolled it out if nothing of its specification is pending.
func RolledOut(_ context.Context, shoot *gardencorev1beta1.Shoot) (*gardencorev1beta1.Shoot, error) {
	running := shoot.DeepCopy()
	running.Spec.SeedName = shoot.Status.SeedName
	running.Generation = shoot.Status.ObservedGeneration
	return running, nil
}

// GardenletRolledOut returns the Deployment of a gardenlet of which no rollout is pending.
func GardenletRolledOut(context.Context) (preflight.RolloutView, error) {
	return preflight.RolloutView{Name: "garden/gardenlet"}, nil
}

// Gardenlet returns the configuration of a gardenlet beside which live migrations are possible.
func Gardenlet(seedName string) *gardenletconfigv1alpha1.GardenletConfiguration {
	config := &gardenletconfigv1alpha1.GardenletConfiguration{
		SeedConfig: &gardenletconfigv1alpha1.SeedConfig{
			SeedTemplate: gardencorev1beta1.SeedTemplate{ObjectMeta: metav1.ObjectMeta{Name: seedName}},
		},
		ETCDConfig: &gardenletconfigv1alpha1.ETCDConfig{FeatureGates: map[string]bool{"UpgradeEtcdVersion": true}},
	}
	gardenletconfigv1alpha1.SetObjectDefaults_GardenletConfiguration(config)
	return config
}

// HealthyEtcds returns what the guards of the agent in the seed see of a shoot's etcds of which nothing is wrong.
func HealthyEtcds(seedName string) func(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
	return func(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
		var views []preflight.EtcdView
		for _, name := range []string{"etcd-main", "etcd-events"} {
			view := preflight.EtcdView{Name: name, MemberNamePrefix: seedName, Quota: 8 << 30}
			for ordinal := range 3 {
				view.Members = append(view.Members, preflight.EtcdMemberView{
					Name: fmt.Sprintf("%s-%s-%d", seedName, name, ordinal), DBSize: 1 << 20, DBSizeInUse: 1 << 20,
				})
			}
			views = append(views, view)
		}
		return views, nil
	}
}
