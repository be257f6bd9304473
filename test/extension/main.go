// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command extension is an extension of Gardener for the landscape, built on Gardener's library for extensions as real
// ones are. It serves what provider-local does not: Networks, and Extensions that act before and after kube-apiserver
// and keep a state. See package stateful.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gardener/gardener/extensions/pkg/controller/extension"
	"github.com/gardener/gardener/extensions/pkg/controller/heartbeat"
	"github.com/gardener/gardener/extensions/pkg/controller/network"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/logger"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/livecpm/livecpm/test/extension/stateful"
)

const (
	name = "extension-test"
	// networkType is the type of Networks, extensionTypes are those of Extensions; the registration in the garden names
	// them, too.
	networkType = "test"
	resync      = time.Hour
)

var extensionTypes = []string{"test-early", "test-late"}

func main() {
	log := logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON)
	runtimelog.SetLogger(log)
	if err := run(signals.SetupSignalHandler(), os.Getenv("SEED_NAME"), os.Getenv("NAMESPACE")); err != nil {
		log.Error(err, "Failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, seed, namespace string) error {
	if seed == "" || namespace == "" {
		return errors.New("the environment lacks SEED_NAME or NAMESPACE")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("failed to read the pod's credentials: %w", err)
	}
	mgr, err := manager.New(config, manager.Options{
		Scheme:  kubernetes.SeedScheme,
		Metrics: server.Options{BindAddress: "0"},
		// Its permission for Leases is for its own namespace, which does not suffice for a cache.
		Client: client.Options{
			Cache: &client.CacheOptions{DisableFor: []client.Object{&coordinationv1.Lease{}}},
		},
		LeaderElection:                true,
		LeaderElectionID:              name + "-leader-election",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		// A busy machine gives a process nothing for a while.
		LeaseDuration: ptr.To(time.Minute), RenewDeadline: ptr.To(45 * time.Second),
		RetryPeriod: ptr.To(5 * time.Second),
	})
	if err != nil {
		return fmt.Errorf("failed to create manager: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return fmt.Errorf("failed to create client: %w", err)
	}
	keeper := &stateful.Keeper{Client: mgr.GetClient(), Seed: seed, Record: &stateful.Record{Client: direct}}
	if err := addToManager(ctx, mgr, keeper, namespace); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func addToManager(ctx context.Context, mgr manager.Manager, keeper *stateful.Keeper, namespace string) error {
	classes := []extensionsv1alpha1.ExtensionClass{extensionsv1alpha1.ExtensionClassShoot}
	if err := network.Add(mgr, network.AddArgs{
		Actuator: stateful.NetworkActuator(keeper), ControllerOptions: controller.Options{MaxConcurrentReconciles: 5},
		Predicates: network.DefaultPredicates(ctx, mgr, false), Type: networkType, ExtensionClasses: classes,
	}); err != nil {
		return fmt.Errorf("failed to add the controller of Networks: %w", err)
	}
	for _, extensionType := range extensionTypes {
		if err := extension.Add(mgr, extension.AddArgs{
			Actuator:          stateful.ExtensionActuator(keeper),
			ControllerOptions: controller.Options{MaxConcurrentReconciles: 5},
			Name:              extensionType, FinalizerSuffix: extensionType, Resync: resync,
			Predicates: extension.DefaultPredicates(ctx, mgr, false), Type: extensionType, ExtensionClasses: classes,
		}); err != nil {
			return fmt.Errorf("failed to add the controller of Extensions of type %s: %w", extensionType, err)
		}
	}
	if err := heartbeat.Add(mgr, heartbeat.AddArgs{ExtensionName: name, Namespace: namespace, RenewIntervalSeconds: 30,
		Clock: clock.RealClock{}}); err != nil {
		return fmt.Errorf("failed to add the heartbeat: %w", err)
	}
	return nil
}
