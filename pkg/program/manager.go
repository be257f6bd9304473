// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"time"

	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

// shutdownTimeout is how long a manager waits for its controllers when it ends. The next replica takes over only
// afterwards.
const shutdownTimeout = 5 * time.Second

// ManagerOptions returns the options that the managers of both programs share.
func ManagerOptions(
	log logr.Logger,
	scheme *runtime.Scheme,
	server configv1alpha1.Server,
	election *componentbaseconfigv1alpha1.LeaderElectionConfiguration,
) manager.Options {
	return manager.Options{
		Logger:                  log,
		Scheme:                  scheme,
		GracefulShutdownTimeout: ptr.To(shutdownTimeout),
		// The priority queue can block forever when it is shut down:
		// https://github.com/kubernetes-sigs/controller-runtime/issues/3538, fixed in v0.25. The manager would hold its
		// lease for the whole shutdownTimeout before the next one can take over, and end with an error.
		Controller:             controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
		HealthProbeBindAddress: server.HealthProbes.Address(),
		Metrics:                metricsserver.Options{BindAddress: server.Metrics.Address()},

		LeaderElection:                ptr.Deref(election.LeaderElect, true),
		LeaderElectionResourceLock:    election.ResourceLock,
		LeaderElectionID:              election.ResourceName,
		LeaderElectionNamespace:       election.ResourceNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &election.LeaseDuration.Duration,
		RenewDeadline:                 &election.RenewDeadline.Duration,
		RetryPeriod:                   &election.RetryPeriod.Duration,
	}
}

// AddProbes adds the liveness and the readiness check to the manager. A replica is ready when the cache of the garden
// is filled: only then it takes over quickly. Whether the garden answers is not part of the liveness, because a restart
// would not help.
func AddProbes(mgr manager.Manager, garden cache.Cache) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("failed to add the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("garden-cache", gardenerhealthz.NewCacheSyncHealthz(garden)); err != nil {
		return fmt.Errorf("failed to add the readiness check: %w", err)
	}
	return nil
}
