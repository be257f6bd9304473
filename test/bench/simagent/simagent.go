// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package simagent is an agent that does nothing in its seed: frame, gate, guards and caches are the real ones, an
// action takes a while and is done.
package simagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/agent"
	// The real actions are linked, because what they bring along takes memory.
	_ "github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/setup"
	_ "github.com/livecpm/livecpm/pkg/agent/source"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
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
	gardenlet := &gardenletconfigv1alpha1.GardenletConfiguration{
		SeedConfig: &gardenletconfigv1alpha1.SeedConfig{
			SeedTemplate: gardencorev1beta1.SeedTemplate{ObjectMeta: metav1.ObjectMeta{Name: options.SeedName}},
		},
		ETCDConfig: &gardenletconfigv1alpha1.ETCDConfig{FeatureGates: map[string]bool{"UpgradeEtcdVersion": true}},
	}
	gardenletconfigv1alpha1.SetObjectDefaults_GardenletConfiguration(gardenlet)

	environment, err := setup.NewEnvironment(ctx, log, config, gardenlet)
	if err != nil {
		return err
	}
	reader, writer := environment.GardenCluster.GetAPIReader(), environment.GardenCluster.GetClient()
	w := &work{options: options, since: map[task]time.Time{}}
	checker, err := preflight.New(preflight.Options{
		Reader:    reader,
		OwnSeed:   environment.SeedName(),
		Gardenlet: gardenlet,
		Version:   options.Version,
		Etcds:     w.etcds,
		Clock:     clock.RealClock{},
	})
	if err != nil {
		return err
	}
	reconciler, err := agent.New(agent.Options{
		GardenClient:    writer,
		GardenAPIReader: reader,
		Recorder:        environment.GardenCluster.GetEventRecorder("livecpm-agent"),
		SeedName:        environment.SeedName(),
		Config:          config.Controllers.LiveMigration,
		Actions: map[steps.Role]migration.Actions{
			steps.Source:      w.actions(steps.Source),
			steps.Destination: w.actions(steps.Destination),
		},
		Clock:     clock.RealClock{},
		Gate:      gate.New(writer, reader),
		Preflight: checker,
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

// actions returns what a role does.
func (w *work) actions(role steps.Role) migration.Actions {
	actions := migration.Actions{
		Steps:   map[gardencorev1beta1.ConditionType]migration.Action{},
		Assists: map[gardencorev1beta1.ConditionType]migration.Action{},
		Always: migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Outcome{}, nil
		}),
		Abort: migration.ActionFunc(func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Outcome{}, errors.New("no migration of a benchmark is aborted")
		}),
	}
	for _, step := range steps.Table() {
		switch {
		case step.Owner == role:
			actions.Steps[step.Condition] = migration.ActionFunc(w.step)
		case step.AssistOn() != "":
			actions.Assists[step.Condition] = actions.Always
		}
	}
	if role == steps.Destination {
		actions.HandOver = handOver
	}
	return actions
}

// etcds returns what the guards see of etcds of which nothing is wrong.
func (w *work) etcds(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
	var views []preflight.EtcdView
	for _, name := range []string{"etcd-main", "etcd-events"} {
		view := preflight.EtcdView{Name: name, MemberNamePrefix: w.options.SeedName, Quota: 8 << 30}
		for ordinal := range 3 {
			view.Members = append(view.Members, preflight.EtcdMemberView{
				Name:   fmt.Sprintf("%s-%s-%d", w.options.SeedName, name, ordinal),
				DBSize: 1 << 20, DBSizeInUse: 1 << 20,
			})
		}
		views = append(views, view)
	}
	return views, nil
}

// step makes one attempt: the first one begins the work, as real ones do, and a later one finds it done.
func (w *work) step(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if m.Step.Condition == steps.First().Condition {
		if _, err := os.Stat(w.options.GoFile); err != nil {
			// The frame looks again when its time has come.
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
	if m.Step.AssistOn() != "" {
		reason = m.Step.AssistOn()
	}
	return steps.Waiting(left, reason, "The work continues"), nil
}

func handOver(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error {
	shoot.Status.SeedName = new(m.DestinationSeed)
	shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type: gardencorev1beta1.LastOperationTypeRestore, State: gardencorev1beta1.LastOperationStateSucceeded,
		Progress: 100, LastUpdateTime: metav1.NewTime(m.Clock.Now()),
	}
	return nil
}
