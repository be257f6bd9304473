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
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/hack/images"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/node"
	"github.com/livecpm/livecpm/test/landscape/pki"
)

// The phase in this file installs livecpm as an operator would: its images, its charts in the garden and the seeds, and
// its controller manager.

const (
	// livecpmNamespace is where livecpm runs in a seed, beside the gardenlet.
	livecpmNamespace = "garden"
	agentDeployment  = "livecpm-agent"
	// controllerManager runs in the garden, which has no node: as a process, without an image.
	controllerManager = "livecpm-controller-manager"
)

// installLivecpm builds livecpm's images, imports them and applies its charts.
func (l *Landscape) installLivecpm(ctx context.Context) error {
	built, err := l.livecpmImages(ctx)
	if err != nil {
		return err
	}
	digests := map[string]string{}
	var tarballs []image.Tarball
	for _, b := range built {
		digests[b.Name] = b.Digest
		tarballs = append(tarballs, image.Tarball{Name: b.Name, File: b.File, Refs: b.References, Digest: b.Digest})
	}
	version, err := l.kubernetesVersion(ctx)
	if err != nil {
		return err
	}
	if err := l.applyChart(ctx, l.Config.Garden.Name, charts.Garden, version, map[string]any{
		"rbac":    map[string]any{"enabled": true},
		"runtime": map[string]any{"enabled": false},
		"controllerManager": map[string]any{
			"enabled":  true,
			"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": garden.LivecpmIdentity}},
		},
	}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.startControllerManager(ctx) })
	for _, seed := range l.Config.Seeds {
		group.Go(func() error { return l.installAgent(ctx, seed, version, digests, tarballs) })
	}
	return group.Wait()
}

// startControllerManager builds and starts livecpm-controller-manager.
func (l *Landscape) startControllerManager(ctx context.Context) error {
	binary, err := build.Own(ctx, l.Config, controllerManager, "./cmd/"+controllerManager)
	if err != nil {
		return err
	}
	ca, err := pki.EnsureCA(l.Config.PKI(l.Config.Garden.Name), "ca")
	if err != nil {
		return err
	}
	return garden.StartLivecpm(ctx, l.Config, l.Processes, ca, binary)
}

// seedCommands are the programs that run in the seeds.
func seedCommands() []images.Command {
	return slices.DeleteFunc(slices.Clone(images.Commands), func(command images.Command) bool {
		return command.Name == controllerManager || command.Name == images.DropIn
	})
}

// livecpmImages builds the images of what runs in the seeds, or finds those of an earlier run if nothing has changed since.
func (l *Landscape) livecpmImages(ctx context.Context) ([]images.Image, error) {
	var packages []string
	for _, command := range seedCommands() {
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
	if content, err := os.ReadFile(record); err == nil && json.Unmarshal(content, &last) == nil && last.Fingerprint == fingerprint {
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
		Commands: seedCommands(),
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

func (l *Landscape) installAgent(ctx context.Context, seed config.Seed, version string, digests map[string]string, tarballs []image.Tarball) error {
	n, err := node.New(l.Config, seed, l.Processes)
	if err != nil {
		return err
	}
	imported, err := n.LoadImages(ctx, tarballs...)
	if err != nil {
		return err
	}
	if len(imported) > 0 {
		l.progress.report("%s: imported %s", seed.Name, strings.Join(imported, ", "))
	}
	c, err := n.Client()
	if err != nil {
		return err
	}
	configMap, secret, err := gardenletSources(ctx, c)
	if err != nil {
		return err
	}
	values := map[string]any{
		"image": map[string]any{"ref": image.Ref("livecpm-agent")},
		"relay": map[string]any{"image": map[string]any{"ref": image.Ref("livecpm-relay")}},
		"gardenlet": map[string]any{
			"configMap":        map[string]any{"name": configMap},
			"gardenKubeconfig": map[string]any{"secretName": secret},
		},
		// The tag stays the same when the image changes.
		"podAnnotations": map[string]any{"landscape/image": digests["livecpm-agent"]},
		"config": map[string]any{
			"dns": map[string]any{"resolvers": []any{l.Config.Garden.IP + ":53"}},
			// Kept connections do not end by themselves: what is left after the clients' DNS caches is moved by the graceful end
			// of the kube-apiserver. Waiting longer for them would only make the demo longer.
			"flows": map[string]any{"drainTimeout": "20s"},
		},
	}
	if err := l.applyChart(ctx, seed.Name, charts.Agent, version, values); err != nil {
		return err
	}
	return awaitDeployment(ctx, c, seed.Name, client.ObjectKey{Namespace: livecpmNamespace, Name: agentDeployment})
}

// gardenletSources returns the names of the ConfigMap and the Secret from which the gardenlet of the seed takes its
// configuration and its access to the garden. The gardenlet's chart names the ConfigMap by its content.
func gardenletSources(ctx context.Context, c client.Client) (configMap, secret string, err error) {
	gardenlet := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: livecpmNamespace, Name: "gardenlet"}, gardenlet); err != nil {
		return "", "", fmt.Errorf("failed to read deployment of the gardenlet: %w", err)
	}
	for _, volume := range gardenlet.Spec.Template.Spec.Volumes {
		switch {
		case volume.ConfigMap != nil && strings.HasPrefix(volume.ConfigMap.Name, "gardenlet-configmap"):
			configMap = volume.ConfigMap.Name
		case volume.Secret != nil && strings.HasPrefix(volume.Secret.SecretName, "gardenlet-kubeconfig"):
			secret = volume.Secret.SecretName
		}
	}
	if configMap == "" || secret == "" {
		return "", "", errors.New("failed to find configuration and kubeconfig among the volumes of the gardenlet's deployment")
	}
	return configMap, secret, nil
}

// applyChart renders a chart and applies it to the garden or a seed.
func (l *Landscape) applyChart(ctx context.Context, clusterName, chart, version string, values map[string]any) error {
	manifests, err := charts.Render(chart, chart, livecpmNamespace, version, values)
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

// awaitDeployment waits until all replicas of the present generation are available.
func awaitDeployment(ctx context.Context, c client.Client, clusterName string, key client.ObjectKey) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		deployment := &appsv1.Deployment{}
		err := c.Get(ctx, key, deployment)
		if err == nil {
			status, want := deployment.Status, *deployment.Spec.Replicas
			if status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want {
				return nil
			}
			err = fmt.Errorf("%d of %d replicas are available and up to date", min(status.AvailableReplicas, status.UpdatedReplicas), want)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to wait for deployment %s in %s (see kubectl logs): %w", key, clusterName, err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}
