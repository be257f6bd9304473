// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package framework starts a garden for integration tests: a real kube-apiserver with its etcd, and the
// gardener-apiserver in this process with its default admission plugins and the feature gate for live migrations on.
// The environment variable KUBEBUILDER_ASSETS names the folder of the binaries (see hack/envtest-assets.sh).
package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenerenvtest "github.com/gardener/gardener/test/envtest"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/test/patience"
)

// kubernetesVersion is what the charts are rendered for. It is the version of the kube-apiserver in hack/tools.
const kubernetesVersion = "v1.36.3"

// Garden is a running garden.
type Garden struct {
	// Config gives access with all permissions.
	Config *rest.Config
	// Client reads and writes without a cache.
	Client client.Client

	env        *gardenerenvtest.GardenerTestEnvironment
	gatekeeper *gatekeeper
	// folder has the files of a guarded garden, audit is its audit log.
	folder, audit string
}

// StartGarden starts a garden. The caller stops it.
func StartGarden(log logr.Logger) (*Garden, error) {
	return (&Garden{}).start(log, &envtest.APIServer{})
}

// StartGuardedGarden starts a garden with Gardener's SeedAuthorizer and SeedRestriction in front of it, and with an
// audit log. The caller stops it.
func StartGuardedGarden(log logr.Logger) (_ *Garden, err error) {
	garden, apiServer := &Garden{}, &envtest.APIServer{}
	if garden.folder, err = os.MkdirTemp("", "livecpm-garden-"); err != nil {
		return nil, fmt.Errorf("failed to make a folder for the garden: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(garden.folder)
		}
	}()
	if garden.gatekeeper, err = newGatekeeper(garden.folder, apiServer); err != nil {
		return nil, fmt.Errorf("failed to prepare the seed authorizer: %w", err)
	}
	if garden.audit, err = auditLog(garden.folder, apiServer); err != nil {
		return nil, fmt.Errorf("failed to prepare the audit log: %w", err)
	}
	return garden.start(log, apiServer)
}

// start starts the garden with its kube-apiserver, and its gatekeeper if it has one.
func (g *Garden) start(log logr.Logger, apiServer *envtest.APIServer) (_ *Garden, err error) {
	logf.SetLogger(log)

	g.env = &gardenerenvtest.GardenerTestEnvironment{
		Environment: &envtest.Environment{
			ControlPlaneStartTimeout: patience.Start,
			ControlPlaneStopTimeout:  patience.Stop,
			ControlPlane:             envtest.ControlPlane{APIServer: apiServer},
		},
		GardenerAPIServer: &gardenerenvtest.GardenerAPIServer{
			Args: []string{"--feature-gates=LiveControlPlaneMigration=true"},
		},
	}
	if g.Config, err = g.env.Start(); err != nil {
		return nil, fmt.Errorf("failed to start the garden: %w", err)
	}
	if g.Client, err = client.New(g.Config, client.Options{Scheme: kubernetes.GardenScheme}); err != nil {
		_ = g.env.Stop()
		return nil, fmt.Errorf("failed to create a client for the garden: %w", err)
	}
	if err = g.waitUntilServed(context.Background()); err != nil {
		_ = g.env.Stop()
		return nil, err
	}
	if g.gatekeeper != nil {
		if err = g.gatekeeper.start(g); err != nil {
			_ = g.Stop()
			return nil, fmt.Errorf("failed to start the seed authorizer: %w", err)
		}
	}
	return g, nil
}

// servedTimeout is how long the kube-apiserver may take to notice that gardener-apiserver answers for a version of its
// API.
const servedTimeout = patience.Start

// waitUntilServed waits until the kube-apiserver passes requests on for each version of gardener-apiserver's API. That
// its APIService says Available is not enough: the handlers learn it later, and answer 503 until then. Gardener's
// environment makes sure of three groups in the version in which most objects are, and of no other.
func (g *Garden) waitUntilServed(ctx context.Context) error {
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, servedTimeout,
		true, func(ctx context.Context) (bool, error) {
			last = nil
			for _, list := range []client.ObjectList{&gardencorev1.ControllerDeploymentList{},
				&securityv1alpha1.CredentialsBindingList{}} {
				if err := g.Client.List(ctx, list, client.Limit(1)); err != nil {
					last = fmt.Errorf("failed to list %T: %w", list, err)
				}
			}
			return last == nil, nil
		}); err != nil {
		return fmt.Errorf("the garden does not serve all of its API after %s: %w", servedTimeout,
			errors.Join(err, last))
	}
	return nil
}

// Kubeconfig returns a kubeconfig of the user, who has the permissions that the roles in the garden give.
func (g *Garden) Kubeconfig(user string) ([]byte, error) {
	authenticated, err := g.env.AddUser(envtest.User{Name: user}, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to add user %s: %w", user, err)
	}
	return authenticated.KubeConfig()
}

// Stop stops the garden.
func (g *Garden) Stop() error {
	var failures []error
	if g.gatekeeper != nil {
		failures = append(failures, g.gatekeeper.stop(g))
	}
	failures = append(failures, g.env.Stop())
	if g.folder != "" {
		failures = append(failures, os.RemoveAll(g.folder))
	}
	return errors.Join(failures...)
}

// InstallPolicies applies the chart livecpm-garden and waits until gardener-apiserver enforces it.
func (g *Garden) InstallPolicies(ctx context.Context) error {
	if err := g.InstallChart(ctx, nil); err != nil {
		return err
	}
	return g.waitForGate(ctx, gateClosed)
}

// InstallChart creates what the chart livecpm-garden consists of with the given values.
func (g *Garden) InstallChart(ctx context.Context, values map[string]any) error {
	objects, err := chartObjects(values)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := g.Client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("failed to create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// RemovePolicies deletes what InstallPolicies created and waits until gardener-apiserver does not enforce it any more.
func (g *Garden) RemovePolicies(ctx context.Context) error {
	objects, err := chartObjects(nil)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := g.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return g.waitForGate(ctx, gateOpen)
}

// gateState is whether the gate lets the classic migration pass.
type gateState string

const (
	gateClosed gateState = "closed"
	gateOpen   gateState = "open"
)

// waitForGate waits until the gate is in the state for a shoot of its own that is on its way to another seed. It has
// seeds of its own as well.
func (g *Garden) waitForGate(ctx context.Context, state gateState) error {
	probe := NewShoot("probe", "probe-a")
	if err := g.Client.Get(ctx, client.ObjectKeyFromObject(probe), probe); apierrors.IsNotFound(err) {
		for _, seed := range []string{"probe-a", "probe-b"} {
			if err := g.CreateSeed(ctx, NewSeed(seed)); err != nil {
				return err
			}
		}
		if err := g.CreateShoot(ctx, probe); err != nil {
			return err
		}
		if err := g.Intend(ctx, probe); err != nil {
			return err
		}
		if err := g.Bind(ctx, probe, "probe-b"); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}

	var last error
	if err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute,
		true, func(ctx context.Context) (bool, error) {
			last = gate.New(g.Client, g.Client).Verify(ctx, probe)
			return (last == nil) == (state == gateClosed), nil
		}); err != nil {
		return fmt.Errorf("failed to wait for the gate to be %s: %w (last proof: %v)", state, err, last)
	}
	return nil
}

func chartObjects(values map[string]any) ([]*unstructured.Unstructured, error) {
	installed := charts.Release{Chart: charts.Garden, Name: "livecpm-garden",
		Namespace: "garden", Kubernetes: kubernetesVersion}
	manifests, err := installed.Render(values)
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, len(manifests))
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest.Content), &object.Object); err != nil {
			return nil, fmt.Errorf("failed to parse %s: %w", manifest.Name, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
