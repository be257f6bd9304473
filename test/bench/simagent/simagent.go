// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package simagent is an agent that does nothing in its seed: frame, gate, guards and caches are the real ones, an
// action takes a while and is done.
package simagent

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"

	// The real actions are linked, because what they bring along takes memory.
	_ "github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/setup"
	_ "github.com/livecpm/livecpm/pkg/agent/source"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/simulation"
)

// Options are what an agent needs to know.
type Options struct {
	// Garden and Seed are kubeconfigs, SeedName is the name of the seed.
	Garden, Seed, SeedName string
	// Version is the Gardener version that the agent is built with.
	Version string
	// HealthPort and MetricsPort are on the loopback interface.
	HealthPort, MetricsPort int
	// GoFile holds all migrations in their first step until the file exists.
	GoFile string
	// Pace is how long a step takes.
	Pace time.Duration
}

// Parse returns the options of a command line. It has a flag set of its own: Gardener's libraries register flags in the
// global one, "version" among them.
func Parse(args []string) (Options, error) {
	options := Options{}
	flags := flag.NewFlagSet("simagent", flag.ContinueOnError)
	flags.StringVar(&options.Garden, "garden", "", "kubeconfig of the garden")
	flags.StringVar(&options.Seed, "seed", "", "kubeconfig of the seed")
	flags.StringVar(&options.SeedName, "seed-name", "", "name of the seed")
	flags.StringVar(&options.Version, "version", "", "Gardener version that the agent is built with")
	flags.IntVar(&options.HealthPort, "health-port", 0, "port of the probes")
	flags.IntVar(&options.MetricsPort, "metrics-port", 0, "port of the metrics")
	flags.StringVar(&options.GoFile, "go-file", "", "file without which no first step is finished")
	flags.DurationVar(&options.Pace, "pace", 0, "how long a step takes")
	if err := flags.Parse(args); err != nil {
		return Options{}, fmt.Errorf("failed to read the command line: %w", err)
	}
	return options, nil
}

// Run is the agent.
func Run(ctx context.Context, log logr.Logger, options Options) error {
	config := &configv1alpha1.AgentConfiguration{
		GardenClientConnection: componentbaseconfigv1alpha1.ClientConnectionConfiguration{Kubeconfig: options.Garden},
		SeedClientConnection:   componentbaseconfigv1alpha1.ClientConnectionConfiguration{Kubeconfig: options.Seed},
		LeaderElection:         &componentbaseconfigv1alpha1.LeaderElectionConfiguration{LeaderElect: new(false)},
		Server: configv1alpha1.Server{
			HealthProbes: &configv1alpha1.Endpoint{BindAddress: "127.0.0.1", Port: options.HealthPort},
			Metrics:      &configv1alpha1.Endpoint{BindAddress: "127.0.0.1", Port: options.MetricsPort},
		},
	}
	configv1alpha1.SetDefaults(config)
	environment, err := setup.NewEnvironment(ctx, log, config, simulation.Gardenlet(options.SeedName))
	if err != nil {
		return err
	}

	w := &work{options: options, since: map[task]time.Time{}}
	reconciler, err := simulation.NewReconciler(simulation.Agent{
		SeedName:        environment.SeedName(),
		GardenClient:    environment.GardenCluster.GetClient(),
		GardenAPIReader: environment.GardenCluster.GetAPIReader(),
		Recorder:        environment.GardenCluster.GetEventRecorder("livecpm-agent"),
		Config:          config.Controllers.LiveMigration,
		Version:         options.Version,
		Actions:         simulation.Both(w.ofRole),
	})
	if err != nil {
		return err
	}
	if err := reconciler.AddToManager(environment.Manager, environment.GardenCluster); err != nil {
		return fmt.Errorf("failed to add the controller for live migrations: %w", err)
	}
	return environment.Manager.Start(ctx)
}

// work is what stands in for two seeds.
type work struct {
	options Options

	lock  sync.Mutex
	since map[task]time.Time
}

type task struct {
	shoot types.UID
	step  gardencorev1beta1.ConditionType
}

// ofRole returns what a role does.
func (w *work) ofRole(steps.Role) simulation.Work {
	return simulation.Work{
		Step: func(steps.Step) migration.Action { return migration.ActionFunc(w.step) },
		Always: migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Outcome{}, nil
		}),
	}
}

// step makes one attempt: the first one begins the work, as real ones do, and a later one finds it done.
func (w *work) step(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if m.Step.Condition == steps.First().Condition {
		if _, err := os.Stat(w.options.GoFile); err != nil {
			// The frame looks again after its sync period.
			return steps.Waiting(0, steps.ReasonStarted, "Waiting for all the others"), nil
		}
	}
	w.lock.Lock()
	key := task{m.Shoot.UID, m.Step.Condition}
	since, begun := w.since[key]
	if !begun {
		since = m.Clock.Now()
		w.since[key] = since
	}
	w.lock.Unlock()

	if !begun {
		if err := m.Report(ctx, steps.ReasonStarted, "The work has begun"); err != nil {
			return steps.Outcome{}, err
		}
	}
	left := w.options.Pace - m.Clock.Since(since)
	if left <= 0 {
		w.lock.Lock()
		defer w.lock.Unlock()
		delete(w.since, key)
		return steps.Done("The work is done"), nil
	}
	reason := steps.ReasonStarted
	if asks := m.Step.Asks(); len(asks) > 0 {
		reason = asks[len(asks)-1]
	}
	return steps.Waiting(left, reason, "The work continues"), nil
}
