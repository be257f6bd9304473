// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenletbootstraputil "github.com/gardener/gardener/pkg/gardenlet/bootstrap/util"
	"github.com/gardener/gardener/pkg/utils/gardener/gardenlet"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/gardenletconfig"
	"github.com/livecpm/livecpm/pkg/agent/setup"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

// retryPeriod is the wait between two attempts to get ready, while the gardenlet registers its seed.
const retryPeriod = 10 * time.Second

// errNoCredentials means that the gardenlet has not registered yet.
var errNoCredentials = errors.New("the gardenlet has no kubeconfig for the garden yet")

// errNoPermissions means that the agent's ControllerRegistration has not been installed in the seed.
var errNoPermissions = errors.New("the agent has no permissions yet")

// runAgent runs the agent of the gardenlet with the given configuration.
func runAgent(ctx context.Context, configFile string) error {
	// A gardenlet of a self-hosted shoot has no seed.
	if gardenlet.IsResponsibleForSelfHostedShoot() {
		<-ctx.Done()
		return nil
	}
	gardenletConfig, err := gardenletconfig.Load(configFile)
	if err != nil {
		return err
	}
	config, err := Configuration(gardenletConfig, configFile, os.Getenv)
	if err != nil {
		return err
	}

	log := logf.Log.WithName("livecpm")
	var access *setup.Access
	if !until(ctx, log, clock.RealClock{}, func() (err error) {
		if access, err = accessOf(ctx, gardenletConfig); err != nil {
			return err
		}
		return mayLead(ctx, access.Seed, config)
	}) {
		return nil
	}
	seedSide, err := setup.NewSeedSide(log, config, access.Seed, agent.HostGardenlet)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return seedSide.Start(ctx) })
	group.Go(func() error {
		return runMigrations(ctx, seedSide, setup.Options{
			Log: log, Config: config, GardenletConfig: gardenletConfig, Host: agent.HostGardenlet,
		})
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("the agent in the gardenlet has ended: %w", err)
	}
	return nil
}

// runMigrations runs what needs the garden, from when it answers on. The credentials for it are read at each attempt.
func runMigrations(ctx context.Context, seedSide *setup.SeedSide, options setup.Options) error {
	environment := seedSide.Connect(ctx, options.Log, clock.RealClock{}, func() (*setup.Environment, error) {
		access, err := accessOf(ctx, options.GardenletConfig)
		if err != nil {
			return nil, err
		}
		options.Access = *access
		return setup.NewEnvironmentFor(ctx, options)
	})
	if environment == nil {
		return nil
	}
	if err := setup.AddControllers(environment); err != nil {
		return err
	}
	options.Log.Info("Starting the agent's manager in the gardenlet", "seed", options.SeedName())
	return environment.Manager.Start(ctx)
}

// mayLead asks the seed whether the agent may keep its leases. The gardenlet of a new seed may make leases, and what
// the agent's registration brings comes later: an agent that starts in between takes a lease, cannot renew it, and its
// end would end the gardenlet.
func mayLead(ctx context.Context, seed *rest.Config, config *configv1alpha1.AgentConfiguration) error {
	if !ptr.Deref(config.LeaderElection.LeaderElect, true) {
		return nil
	}
	c, err := client.New(seed, client.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return fmt.Errorf("failed to set up access to the seed: %w", err)
	}
	for _, lease := range []string{config.LeaderElection.ResourceName, setup.SeedSideLease(config)} {
		if err := mayUpdate(ctx, c, config.LeaderElection.ResourceNamespace, lease); err != nil {
			return err
		}
	}
	return nil
}

func mayUpdate(ctx context.Context, seed client.Client, namespace, lease string) error {
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: coordinationv1.GroupName, Resource: "leases", Verb: "update", Namespace: namespace, Name: lease,
		}}}
	if err := seed.Create(ctx, review); err != nil {
		return fmt.Errorf("failed to ask the seed for the agent's permissions: %w", err)
	}
	if !review.Status.Allowed {
		return fmt.Errorf("%w: Lease %s/%s may not be updated in the seed; they come with the registration of "+
			"livecpm-agent, its chart with dropIn=true", errNoPermissions, namespace, lease)
	}
	return nil
}

// until retries until the attempt succeeds. It returns false if the gardenlet ends before that. A seed
// that is new has neither a kubeconfig nor permissions in the garden for a while, and that must not end the gardenlet,
// which is about to get them.
func until(ctx context.Context, log logr.Logger, c clock.Clock, attempt func() error) bool {
	for {
		err := attempt()
		if err == nil {
			return true
		}
		log.Info("The agent in the gardenlet cannot start yet, retrying", "reason", err.Error())
		select {
		case <-ctx.Done():
			return false
		case <-c.After(retryPeriod):
		}
	}
}

// accessOf returns access to the two clusters with the credentials of the gardenlet. When they change, the gardenlet
// ends the process, so nobody has to watch them here.
func accessOf(ctx context.Context, config *gardenletconfigv1alpha1.GardenletConfiguration) (*setup.Access, error) {
	seedConnection := config.SeedClientConnection.ClientConnectionConfiguration
	if kubeconfig := os.Getenv("KUBECONFIG"); kubeconfig != "" {
		seedConnection.Kubeconfig = kubeconfig
	}
	seedConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&seedConnection, nil,
		kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the seed: %w", err)
	}
	seed, err := client.New(seedConfig, client.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the seed: %w", err)
	}
	gardenConfig, err := gardenAccess(ctx, seed, config)
	if err != nil {
		return nil, err
	}
	return &setup.Access{Garden: gardenConfig, Seed: seedConfig}, nil
}

// gardenAccess takes the kubeconfig that the gardenlet has got when it registered, else the one that it was given.
func gardenAccess(
	ctx context.Context, seed client.Client, config *gardenletconfigv1alpha1.GardenletConfiguration,
) (*rest.Config, error) {
	connection := config.GardenClientConnection.ClientConnectionConfiguration
	if kubeconfig := os.Getenv(v1beta1constants.EnvGenericGardenKubeconfig); kubeconfig != "" {
		connection.Kubeconfig = kubeconfig
	}
	var kubeconfig []byte
	if ref := config.GardenClientConnection.KubeconfigSecret; ref != nil {
		var err error
		if kubeconfig, err = gardenletbootstraputil.GetKubeconfigFromSecret(ctx, seed,
			kubernetesutils.ObjectKeyFromSecretRef(*ref)); err != nil {
			return nil, fmt.Errorf("failed to read the gardenlet's kubeconfig for the garden: %w", err)
		}
	}
	if len(kubeconfig) == 0 && connection.Kubeconfig == "" {
		return nil, errNoCredentials
	}
	restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&connection, kubeconfig,
		kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to parse the gardenlet's kubeconfig for the garden: %w", err)
	}
	return restConfig, nil
}
