// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package access is how kubectl-livecpm gets into the garden, the seeds, the pods in them and the shoots, and what it
// reads there as it is. What is seen is judged in pkg/cli/inspect, and nothing is written from here.
package access

import (
	"context"
	"fmt"
	"os"
	"slices"

	authenticationv1alpha1 "github.com/gardener/gardener/pkg/apis/authentication/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

func init() {
	// Credentials for shoots are asked for in an API group that is not among those of the scheme.
	utilruntime.Must(authenticationv1alpha1.AddToScheme(kubernetes.GardenScheme))
}

// GardenFlags say how the garden is reached. They are the usual flags of kubectl.
type GardenFlags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

// NewGardenFlags returns flags with the defaults of kubectl.
func NewGardenFlags() *GardenFlags {
	return &GardenFlags{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

// AddTo adds the flags to the command and all commands below it.
func (f *GardenFlags) AddTo(command *cobra.Command) {
	flags := command.PersistentFlags()
	flags.StringVar(&f.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"path to the kubeconfig of the garden")
	clientcmd.BindOverrideFlags(&f.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
}

// Connect returns access to the garden: by the flags, and without them to the one that gardenctl has targeted, if
// KUBECONFIG is gardenctl's.
func (f *GardenFlags) Connect(ctx context.Context) (*Garden, error) {
	target, err := f.target()
	if err != nil {
		return nil, err
	}
	rules, overrides := *f.rules, f.overrides
	if target != nil {
		rules.ExplicitPath, overrides.CurrentContext = target.kubeconfig, target.context
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&rules, &overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig of the garden: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("failed to read the namespace from the kubeconfig of the garden: %w", err)
	}
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: kubernetes.GardenScheme})
	if err != nil {
		return nil, fmt.Errorf("failed to create a client for the garden: %w", err)
	}
	if target != nil && overrides.Context.Namespace == "" {
		of, err := target.Namespace(ctx, c)
		if err != nil {
			return nil, err
		}
		if of != "" {
			namespace = of
		}
	}
	return &Garden{Client: c, Host: config.Host, Namespace: namespace}, nil
}

// target returns what gardenctl has targeted, unless a flag says where the garden is.
func (f *GardenFlags) target() (*Target, error) {
	if f.rules.ExplicitPath != "" || f.overrides.CurrentContext != "" || f.overrides.ClusterInfo.Server != "" {
		return nil, nil
	}
	return ReadTarget(os.Getenv)
}

// Garden is access to the garden.
type Garden struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Host is the address of its API server.
	Host string
	// Namespace is the namespace that the user works in.
	Namespace string
}

// Shoot returns the shoot with the given name.
func (g *Garden) Shoot(ctx context.Context, name string) (*gardencorev1beta1.Shoot, error) {
	shoot := &gardencorev1beta1.Shoot{}
	key := client.ObjectKey{Namespace: g.Namespace, Name: name}
	if err := g.Client.Get(ctx, key, shoot); err != nil {
		return nil, fmt.Errorf("failed to get Shoot %s: %w", key, err)
	}
	return shoot, nil
}

// Migrated returns the shoots in the namespace, or in all for metav1.NamespaceAll, that ask for a live migration or
// whose conditions show one.
func (g *Garden) Migrated(ctx context.Context, namespace string) ([]gardencorev1beta1.Shoot, error) {
	shoots, err := g.shoots(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(shoots, func(shoot gardencorev1beta1.Shoot) bool {
		return !steps.Requested(&shoot) && len(steps.Conditions(&shoot)) == 0
	}), nil
}

// AllShoots returns the shoots of all namespaces.
func (g *Garden) AllShoots(ctx context.Context) ([]gardencorev1beta1.Shoot, error) {
	return g.shoots(ctx, metav1.NamespaceAll)
}

func (g *Garden) shoots(ctx context.Context, namespace string) ([]gardencorev1beta1.Shoot, error) {
	list := &gardencorev1beta1.ShootList{}
	if err := g.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		if namespace == metav1.NamespaceAll {
			return nil, fmt.Errorf("failed to list the Shoots of all namespaces: %w", err)
		}
		return nil, fmt.Errorf("failed to list the Shoots in namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// ShootNames returns the names of the shoots in the user's namespace.
func (g *Garden) ShootNames(ctx context.Context) ([]string, error) {
	shoots, err := g.shoots(ctx, g.Namespace)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, shoot := range shoots {
		names = append(names, shoot.Name)
	}
	return names, nil
}

// Seeds returns all seeds.
func (g *Garden) Seeds(ctx context.Context) ([]gardencorev1beta1.Seed, error) {
	list := &gardencorev1beta1.SeedList{}
	if err := g.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("failed to list the Seeds: %w", err)
	}
	return list.Items, nil
}
