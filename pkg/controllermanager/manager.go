// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package controllermanager puts livecpm-controller-manager together: the controllers that work in the garden and see all
// seeds. What concerns one seed is the agents' business.
package controllermanager

import (
	"context"
	"fmt"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/controllermanager/drain"
	"github.com/livecpm/livecpm/pkg/controllermanager/formerbackups"
	"github.com/livecpm/livecpm/pkg/controllermanager/gatewatchdog"
	"github.com/livecpm/livecpm/pkg/controllermanager/removalguard"
	"github.com/livecpm/livecpm/pkg/credentials"
	"github.com/livecpm/livecpm/pkg/gate"
)

// NewManager connects to the garden and returns a manager with all controllers. It starts nothing.
func NewManager(log logr.Logger, config *configv1alpha1.ControllerManagerConfiguration) (manager.Manager, error) {
	restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.GardenClientConnection, nil, kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	mgr, err := NewManagerFor(log, restConfig, config)
	if err != nil {
		return nil, err
	}

	// Within the garden, client-go follows the token of the service account by itself.
	if file := config.GardenClientConnection.Kubeconfig; file != "" {
		watcher, err := credentials.NewWatcher(file, clock.RealClock{})
		if err != nil {
			return nil, err
		}
		if err := mgr.Add(watcher); err != nil {
			return nil, fmt.Errorf("failed to add the watcher of the kubeconfig to the manager: %w", err)
		}
	}
	return mgr, nil
}

// NewGardenReader returns access to the garden without a cache.
func NewGardenReader(config *configv1alpha1.ControllerManagerConfiguration) (client.Reader, error) {
	restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.GardenClientConnection, nil, kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	reader, err := client.New(restConfig, client.Options{Scheme: kubernetes.GardenScheme})
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	return reader, nil
}

// NewManagerFor returns a manager with all controllers for the garden that the REST configuration leads to. The changes are
// applied to the manager's options last.
func NewManagerFor(
	log logr.Logger,
	restConfig *rest.Config,
	config *configv1alpha1.ControllerManagerConfiguration,
	changes ...func(*manager.Options),
) (manager.Manager, error) {
	options := manager.Options{
		Logger:                  log,
		Scheme:                  kubernetes.GardenScheme,
		Cache:                   cacheOptions(),
		GracefulShutdownTimeout: ptr.To(5 * time.Second),
		// The priority queue can block for ever when it is shut down: https://github.com/kubernetes-sigs/controller-runtime/issues/3538,
		// mended in v0.25. The manager would wait for its grace period in vain, hold its lease meanwhile, and end with an error.
		Controller:             controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
		HealthProbeBindAddress: config.Server.HealthProbes.Address(),
		Metrics:                metricsserver.Options{BindAddress: config.Server.Metrics.Address()},

		LeaderElection:                ptr.Deref(config.LeaderElection.LeaderElect, true),
		LeaderElectionResourceLock:    config.LeaderElection.ResourceLock,
		LeaderElectionID:              config.LeaderElection.ResourceName,
		LeaderElectionNamespace:       config.LeaderElection.ResourceNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &config.LeaderElection.LeaseDuration.Duration,
		RenewDeadline:                 &config.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:                   &config.LeaderElection.RetryPeriod.Duration,
	}
	for _, change := range changes {
		change(&options)
	}
	mgr, err := manager.New(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("failed to set up the manager: %w", err)
	}

	// Whether the garden can be reached is not part of the liveness; a restart would not help.
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("failed to add the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("garden-cache", gardenerhealthz.NewCacheSyncHealthz(mgr.GetCache())); err != nil {
		return nil, fmt.Errorf("failed to add the readiness check: %w", err)
	}

	if err := gatewatchdog.AddToManager(mgr, config.Controllers.GateWatchdog); err != nil {
		return nil, err
	}
	if err := drain.AddToManager(context.Background(), mgr, config.Controllers.Drain); err != nil {
		return nil, err
	}
	if err := removalguard.AddToManager(mgr, config.Controllers.RemovalGuard); err != nil {
		return nil, err
	}
	if err := formerbackups.AddToManager(mgr, config.Controllers.FormerBackups); err != nil {
		return nil, err
	}
	return mgr, nil
}

// cacheOptions keeps the cache small, and within the permissions: of the admission objects only two may be watched, and of the
// ConfigMaps those in the garden namespace.
func cacheOptions() cache.Options {
	gateOnly := cache.ByObject{Field: fields.SelectorFromSet(fields.Set{"metadata.name": gate.PolicyName})}
	inGardenNamespace := cache.ByObject{Namespaces: map[string]cache.Config{v1beta1constants.GardenNamespace: {}}}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&admissionregistrationv1.ValidatingAdmissionPolicy{}:        gateOnly,
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}: gateOnly,
			&corev1.ConfigMap{}:                   inGardenNamespace,
			&seedmanagementv1alpha1.ManagedSeed{}: inGardenNamespace,
		},
	}
}
