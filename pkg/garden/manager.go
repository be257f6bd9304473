// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package garden puts livecpm-controller-manager together: the controllers that work in the garden and see all
// seeds. What concerns one seed is the agents' business.
package garden

import (
	"context"
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/garden/deadline"
	"github.com/livecpm/livecpm/pkg/garden/drain"
	"github.com/livecpm/livecpm/pkg/garden/formerbackups"
	"github.com/livecpm/livecpm/pkg/garden/gatewatchdog"
	"github.com/livecpm/livecpm/pkg/garden/history"
	"github.com/livecpm/livecpm/pkg/garden/removalguard"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/pkg/program"
)

// NewManager connects to the garden and returns a manager with all controllers. It starts nothing.
func NewManager(log logr.Logger, config *configv1alpha1.ControllerManagerConfiguration) (manager.Manager, error) {
	restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.GardenClientConnection, nil,
		kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	mgr, err := NewManagerFor(log, restConfig, config)
	if err != nil {
		return nil, err
	}

	// Within the garden, client-go follows the token of the service account by itself.
	if file := config.GardenClientConnection.Kubeconfig; file != "" {
		watcher, err := program.NewCredentialsWatcher(file, clock.RealClock{})
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
	restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.GardenClientConnection, nil,
		kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	reader, err := client.New(restConfig, client.Options{Scheme: kubernetes.GardenScheme})
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	return reader, nil
}

// NewManagerFor returns a manager with all controllers for the garden that the REST configuration leads to. The changes
// are applied to the manager's options last.
func NewManagerFor(
	log logr.Logger,
	restConfig *rest.Config,
	config *configv1alpha1.ControllerManagerConfiguration,
	changes ...func(*manager.Options),
) (manager.Manager, error) {
	options := program.ManagerOptions(log, kubernetes.GardenScheme, config.Server, config.LeaderElection)
	options.Cache = cacheOptions()
	for _, change := range changes {
		change(&options)
	}
	mgr, err := manager.New(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("failed to set up the manager: %w", err)
	}

	if err := program.AddProbes(mgr, mgr.GetCache()); err != nil {
		return nil, err
	}
	if err := gatewatchdog.AddToManager(mgr, config.Controllers.GateWatchdog); err != nil {
		return nil, err
	}
	if err := drain.AddToManager(context.Background(), mgr, config.Controllers.Drain); err != nil {
		return nil, err
	}
	if err := history.AddToManager(mgr); err != nil {
		return nil, err
	}
	if err := removalguard.AddToManager(mgr, config.Controllers); err != nil {
		return nil, err
	}
	if err := deadline.AddToManager(mgr, config.Controllers.Deadline); err != nil {
		return nil, err
	}
	if err := formerbackups.AddToManager(mgr, config.Controllers.FormerBackups); err != nil {
		return nil, err
	}
	return mgr, nil
}

// cacheOptions keeps the cache small, and within the permissions: of the admission objects only two may be watched, and
// of the ConfigMaps those in the garden namespace.
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
