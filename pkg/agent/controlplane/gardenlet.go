// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/preflight"
)

// GardenletRollout reads what the Deployment of the gardenlet in the agent's own seed says (preflight.Options.Rollout).
func (c *ControlPlane) GardenletRollout(ctx context.Context) (preflight.RolloutView, error) {
	key := client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: v1beta1constants.DeploymentNameGardenlet}
	deployment := &appsv1.Deployment{}
	if err := c.options.SeedClientSet.APIReader().Get(ctx, key, deployment); err != nil {
		return preflight.RolloutView{}, fmt.Errorf("failed to read Deployment %s: %w", key, err)
	}
	return preflight.RolloutView{
		Name: key.String(), Pending: pending(deployment), Version: versionOf(deployment.Spec.Template.Spec.Containers),
	}, nil
}

// pending tells what the rollout of the Deployment waits for; empty if it is complete. It is what "kubectl rollout
// status" asks for.
func pending(deployment *appsv1.Deployment) string {
	status, wanted := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	switch {
	case status.ObservedGeneration < deployment.Generation:
		return "its change has not been observed yet"
	case status.UpdatedReplicas < wanted:
		return fmt.Sprintf("%d of %d replicas are updated", status.UpdatedReplicas, wanted)
	case status.Replicas > status.UpdatedReplicas:
		return fmt.Sprintf("%d replicas of before have not ended", status.Replicas-status.UpdatedReplicas)
	case status.AvailableReplicas < wanted:
		return fmt.Sprintf("%d of %d replicas are available", status.AvailableReplicas, wanted)
	}
	return ""
}

// versionOf returns the version in the tag of the gardenlet's image; empty if there is no tag, or if it is no version.
func versionOf(containers []corev1.Container) string {
	for _, container := range containers {
		if container.Name != v1beta1constants.DeploymentNameGardenlet {
			continue
		}
		image, _, _ := strings.Cut(container.Image, "@")
		colon := strings.LastIndex(image, ":")
		if colon < strings.LastIndex(image, "/") {
			return "" // It is the port of the registry.
		}
		tag := image[colon+1:]
		if _, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v")); err != nil || !strings.HasPrefix(tag, "v") {
			return ""
		}
		return tag
	}
	return ""
}
