// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/hack/images"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/node"
)

// The phase in this file installs livecpm as an operator would: its images, its chart in the garden, its controller
// manager, and the registration of the agent (registration.go).

const (
	// livecpmNamespace is where livecpm runs in a seed, beside the gardenlet, and where Helm would keep its release.
	livecpmNamespace = "garden"
	// controllerManager runs in the garden, which has no node: as a process, without an image.
	controllerManager = "livecpm-controller-manager"
)

var (
	// agentKey is the Deployment of the agent in a seed.
	agentKey = client.ObjectKey{Namespace: livecpmNamespace, Name: "livecpm-agent"}
	// agentLeaseKey is the lease of all agents of a seed.
	agentLeaseKey = client.ObjectKey{Namespace: livecpmNamespace, Name: "livecpm-agent-leader-election"}
)

// installLivecpm imports livecpm's images, applies the chart of the garden and registers the agent, which the
// gardenlets then install.
func (l *Landscape) installLivecpm(ctx context.Context) error {
	if len(l.livecpmImages) == 0 {
		if err := l.makeLivecpmImages(ctx); err != nil {
			return err
		}
	}
	digests := map[string]string{}
	for _, tarball := range l.livecpmImages {
		digests[tarball.Name] = tarball.Digest
	}
	if err := l.applyGardenChart(ctx); err != nil {
		return err
	}
	// The images first: a pod without one is not tried again at once.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.startControllerManager(groupCtx) })
	group.Go(func() error { return l.importImages(groupCtx, l.livecpmImages) })
	for _, seed := range l.Config.Seeds {
		group.Go(func() error { return l.makeRoom(groupCtx, seed) })
	}
	if err := group.Wait(); err != nil {
		return err
	}

	registration, fingerprint, err := agentRegistration(l.Config, digests)
	if err != nil {
		return err
	}
	gardenClient, err := garden.Client(l.Config)
	if err != nil {
		return err
	}
	if err := apply.Objects(ctx, gardenClient, registration...); err != nil {
		return fmt.Errorf("failed to register the agent in the garden: %w", err)
	}
	l.progress.report("waiting for the gardenlets to install the agent")
	group, groupCtx = errgroup.WithContext(ctx)
	for _, seed := range l.Config.Seeds {
		group.Go(func() error { return l.awaitAgent(groupCtx, gardenClient, seed, fingerprint) })
	}
	return group.Wait()
}

// startControllerManager builds and starts livecpm-controller-manager.
func (l *Landscape) startControllerManager(ctx context.Context) error {
	binary, err := build.Own(ctx, l.Config, controllerManager, "./cmd/"+controllerManager)
	if err != nil {
		return err
	}
	return garden.StartLivecpm(ctx, l.Config, l.Processes, binary)
}

// seedCommands are the programs that run in the seeds, besides the gardenlets.
func seedCommands(gardenlet config.Gardenlet) []images.Command {
	return slices.DeleteFunc(slices.Clone(images.Commands), func(command images.Command) bool {
		return command.Name == controllerManager || command.Name == images.DropIn ||
			command.Name == agentKey.Name && gardenlet == config.GardenletDropIn
	})
}

// makeLivecpmImages makes the images of what runs in the seeds.
func (l *Landscape) makeLivecpmImages(ctx context.Context) error {
	built, err := l.buildLivecpm(ctx)
	if err != nil {
		return err
	}
	l.livecpmImages = nil
	for _, b := range built {
		l.livecpmImages = append(l.livecpmImages,
			image.Tarball{Name: b.Name, File: b.File, Refs: b.References, Digest: b.Digest})
	}
	return nil
}

// buildLivecpm builds the images of what runs in the seeds, or finds those of an earlier run if nothing has changed
// since.
func (l *Landscape) buildLivecpm(ctx context.Context) ([]images.Image, error) {
	var packages []string
	commands := seedCommands(l.Config.Gardenlet)
	for _, command := range commands {
		packages = append(packages, command.Package)
	}
	fingerprint, err := build.Fingerprint(ctx, l.Config, packages...)
	if err != nil {
		return nil, err
	}
	folder := l.Config.Dir("images", "livecpm")
	record := filepath.Join(folder, "built.json")
	type result struct {
		Fingerprint string
		Images      []images.Image
	}
	var last result
	if content, err := os.ReadFile(record); err == nil && json.Unmarshal(content, &last) == nil &&
		last.Fingerprint == fingerprint {
		return last.Images, nil
	}
	l.progress.report("building livecpm's images")
	built, err := images.Build(ctx, images.Options{
		Repository: l.Config.Repo,
		Out:        folder,
		Registry:   image.Registry,
		// Not the version: every commit would roll the pods.
		Version:  image.Tag,
		CABundle: images.DefaultCABundle,
		Commands: commands,
	})
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(result{Fingerprint: fingerprint, Images: built})
	if err != nil {
		return nil, fmt.Errorf("failed to encode record of livecpm's images: %w", err)
	}
	if err := os.WriteFile(record, content, 0o644); err != nil {
		return nil, fmt.Errorf("failed to write record of livecpm's images: %w", err)
	}
	return built, nil
}

// makeRoom makes room for an agent that the gardenlet installs.
func (l *Landscape) makeRoom(ctx context.Context, seed config.Seed) error {
	n, err := node.New(l.Config, seed, l.Processes)
	if err != nil {
		return err
	}
	c, err := n.Client()
	if err != nil {
		return err
	}
	if err := removeForeignAgent(ctx, c, agentKey); err != nil {
		return fmt.Errorf("failed to remove the agent in %s that no gardenlet has installed: %w", seed.Name, err)
	}
	return nil
}

// awaitAgent waits until the gardenlet of the seed has installed the agent that the fingerprint stands for, or until it
// is the agent.
func (l *Landscape) awaitAgent(
	ctx context.Context, gardenClient client.Client, seed config.Seed, fingerprint string,
) error {
	n, err := node.New(l.Config, seed, l.Processes)
	if err != nil {
		return err
	}
	c, err := n.Client()
	if err != nil {
		return err
	}
	return await(ctx, "agent in "+seed.Name, func(ctx context.Context) error {
		agentErr := l.lookForAgent(ctx, c, fingerprint)
		installations := &gardencorev1beta1.ControllerInstallationList{}
		if err := gardenClient.List(ctx, installations); err != nil {
			return fmt.Errorf("failed to list ControllerInstallations: %w", err)
		}
		// What stands in the garden says most when nothing arrives in the seed.
		return errors.Join(checkInstallation(installations.Items, seed.Name), agentErr)
	})
}

// lookForAgent reports whether the seed's agent is at work.
func (l *Landscape) lookForAgent(ctx context.Context, c client.Client, fingerprint string) error {
	if l.Config.Gardenlet == config.GardenletDropIn {
		lease := &coordinationv1.Lease{}
		if err := c.Get(ctx, agentLeaseKey, lease); err != nil {
			return fmt.Errorf("failed to read the lease of the agents: %w", err)
		}
		return checkDropIn(lease, time.Now())
	}
	deployment := &appsv1.Deployment{}
	if err := c.Get(ctx, agentKey, deployment); err != nil {
		return fmt.Errorf("failed to read the Deployment of the agent: %w", err)
	}
	return checkAgent(deployment, fingerprint)
}

// applyGardenChart applies the chart of the garden.
func (l *Landscape) applyGardenChart(ctx context.Context) error {
	version, err := l.kubernetesVersion(ctx)
	if err != nil {
		return err
	}
	clusterName := l.Config.Garden.Name
	installed := charts.Release{Chart: charts.Garden, Name: charts.Garden, Namespace: livecpmNamespace,
		Kubernetes: version}
	manifests, err := installed.Render(gardenChartValues(l.Config))
	if err != nil {
		return err
	}
	restConfig, err := apply.RESTConfig(l.Config.Kubeconfig(clusterName))
	if err != nil {
		return err
	}
	c, err := client.New(restConfig, client.Options{})
	if err != nil {
		return fmt.Errorf("failed to make client of %s: %w", clusterName, err)
	}
	for _, manifest := range manifests {
		if err := apply.Manifests(ctx, c, []byte(manifest.Content)); err != nil {
			return fmt.Errorf("failed to install %s in %s: %w", manifest.Name, clusterName, err)
		}
	}
	return nil
}

// kubernetesVersion is the version of all clusters of the landscape.
func (l *Landscape) kubernetesVersion(ctx context.Context) (string, error) {
	version, err := build.ModuleVersion(ctx, l.Config, "kubernetes", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	return version, nil
}

// installTimeout is how long garden, gardenlet and resource manager may take together to install an agent.
const installTimeout = 4 * time.Minute

// await repeats a check until it passes.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to wait for %s (see kubectl logs): %w", what, err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}
