// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/utils"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"

	"github.com/livecpm/livecpm/hack/examples"
	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/image"
	"github.com/livecpm/livecpm/test/landscape/seedsetup"
)

const (
	// registrationName is the name of the agent's ControllerRegistration and ControllerDeployment. The gardenlet takes
	// it for the name of the release.
	registrationName = "livecpm"
	// fingerprintAnnotation is what the pods of the agent carry to tell which registration and which images they come
	// from: an image keeps its tag when it changes, and nothing else tells an installation of before from that of now.
	fingerprintAnnotation = "landscape.livecpm.dev/installation"

	// agentHostLabel is the label of the agents' lease that says where the leading agent runs, agentHostGardenlet its
	// value for a gardenlet. The agent's own packages are not linked into the landscape's programs.
	agentHostLabel     = "livecpm.gardener.cloud/agent-host"
	agentHostGardenlet = "gardenlet"
)

// gardenChartValues are the values of the chart for the garden, which runs no pods. The agents have service accounts of
// their own there. The seed authorizer gives them what belongs to their seed; where there is none, the chart does.
func gardenChartValues(cfg *config.Config) map[string]any {
	agents, seedNames := make([]any, 0, len(cfg.Seeds)), make([]any, 0, len(cfg.Seeds))
	for _, seed := range cfg.Seeds {
		seedNames = append(seedNames, seed.Name)
		agents = append(agents, map[string]any{
			"apiGroup": rbacv1.GroupName, "kind": rbacv1.GroupKind,
			"name": "system:serviceaccounts:" + gardenerutils.ComputeGardenNamespace(seed.Name),
		})
	}
	// Each seed is in a region of its own.
	rbac := map[string]any{"extension": map[string]any{"enabled": true, "seedsInSeveralRegions": seedNames}}
	switch {
	case cfg.Gardenlet == config.GardenletDropIn:
		// The agents are the gardenlets.
		rbac = map[string]any{"enabled": true}
	case !cfg.Authorizers:
		rbac = map[string]any{"enabled": true, "ownIdentity": true, "subjects": agents,
			"extension": map[string]any{"enabled": true}}
	}
	return map[string]any{
		"registration": map[string]any{"name": registrationName},
		"rbac":         rbac,
		"runtime":      map[string]any{"enabled": false},
		"controllerManager": map[string]any{
			"enabled": true,
			"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind,
				"name": garden.LivecpmIdentity}},
		},
	}
}

// agentRegistration returns the objects of examples/gardener/controllerregistration.yaml with the images and values of
// the landscape, and the fingerprint of it all. The digests are those of the images, by name.
func agentRegistration(cfg *config.Config, digests map[string]string) ([]*unstructured.Unstructured, string, error) {
	files, err := examples.Files()
	if err != nil {
		return nil, "", err
	}
	objects, err := apply.Decode(files[examples.ControllerRegistration])
	if err != nil {
		return nil, "", err
	}
	for _, object := range objects {
		if object.GetKind() != "ControllerDeployment" {
			continue
		}
		helm, _, err := unstructured.NestedMap(object.Object, "helm")
		if err != nil {
			return nil, "", fmt.Errorf("failed to read ControllerDeployment %s: %w", object.GetName(), err)
		}
		shipped, _ := helm["values"].(map[string]any)
		values := utils.MergeMaps(shipped, agentValues(cfg))
		content, err := json.Marshal([]any{helm["rawChart"], values, digests})
		if err != nil {
			return nil, "", fmt.Errorf("failed to encode ControllerDeployment %s: %w", object.GetName(), err)
		}
		sum := sha256.Sum256(content)
		fingerprint := hex.EncodeToString(sum[:8])
		helm["values"] = utils.MergeMaps(values,
			map[string]any{"podAnnotations": map[string]any{fingerprintAnnotation: fingerprint}})
		if err := unstructured.SetNestedMap(object.Object, helm, "helm"); err != nil {
			return nil, "", fmt.Errorf("failed to set values of ControllerDeployment %s: %w", object.GetName(), err)
		}
		return objects, fingerprint, nil
	}
	return nil, "", fmt.Errorf("failed to find a ControllerDeployment in examples/%s", examples.ControllerRegistration)
}

// agentValues are the values of the agent's chart that an operator would set for this landscape.
func agentValues(cfg *config.Config) map[string]any {
	if cfg.Gardenlet == config.GardenletDropIn {
		// Permissions only: what the agent is told there is in the gardenlet's chart (seedsetup).
		return map[string]any{"dropIn": true}
	}
	return map[string]any{
		"image":  map[string]any{"ref": image.Ref("livecpm-agent")},
		"relay":  map[string]any{"image": map[string]any{"ref": image.Ref("livecpm-relay")}},
		"config": seedsetup.AgentSettings(cfg),
	}
}

// checkAgent reports whether all replicas of the agent that the fingerprint stands for are available, and no others.
func checkAgent(deployment *appsv1.Deployment, fingerprint string) error {
	if installed := deployment.Spec.Template.Annotations[fingerprintAnnotation]; installed != fingerprint {
		return fmt.Errorf("deployment %s is not the one that is registered: it comes from installation %q, not %q",
			client.ObjectKeyFromObject(deployment), installed, fingerprint)
	}
	status, want := deployment.Status, ptr.Deref(deployment.Spec.Replicas, 1)
	if status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == want &&
		status.Replicas == want && status.AvailableReplicas == want {
		return nil
	}
	return fmt.Errorf("%d of %d replicas of deployment %s are available and up to date",
		min(status.AvailableReplicas, status.UpdatedReplicas), want, client.ObjectKeyFromObject(deployment))
}

// checkDropIn reports whether the agent of the seed runs in its gardenlet: the lease of all agents says where the one
// is that leads.
func checkDropIn(lease *coordinationv1.Lease, now time.Time) error {
	key := client.ObjectKeyFromObject(lease)
	if host := lease.Labels[agentHostLabel]; host != agentHostGardenlet {
		return fmt.Errorf("lease %s is not held by an agent in a gardenlet, but in %q", key, host)
	}
	age := now.Sub(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time)
	if valid := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) *
		time.Second; ptr.Deref(lease.Spec.HolderIdentity, "") == "" || age > valid {
		return fmt.Errorf("lease %s is held by nobody: it was renewed %s ago", key, age.Round(time.Second))
	}
	return nil
}

// checkInstallation reports whether the garden has made an installation of the agent for the seed, and whether it is in
// order.
func checkInstallation(installations []gardencorev1beta1.ControllerInstallation, seedName string) error {
	for _, installation := range installations {
		if installation.Spec.RegistrationRef.Name != registrationName || installation.Spec.SeedRef == nil ||
			installation.Spec.SeedRef.Name != seedName {
			continue
		}
		var failures []error
		for _, want := range []struct {
			condition gardencorev1beta1.ConditionType
			status    gardencorev1beta1.ConditionStatus
		}{
			{gardencorev1beta1.ControllerInstallationValid, gardencorev1beta1.ConditionTrue},
			{gardencorev1beta1.ControllerInstallationInstalled, gardencorev1beta1.ConditionTrue},
			{gardencorev1beta1.ControllerInstallationHealthy, gardencorev1beta1.ConditionTrue},
			{gardencorev1beta1.ControllerInstallationProgressing, gardencorev1beta1.ConditionFalse},
		} {
			condition := v1beta1helper.GetCondition(installation.Status.Conditions, want.condition)
			switch {
			case condition == nil:
				failures = append(failures,
					fmt.Errorf("ControllerInstallation %s has no condition %s yet", installation.Name, want.condition))
			case condition.Status != want.status:
				failures = append(failures, fmt.Errorf("ControllerInstallation %s: %s is %s: %s", installation.Name,
					want.condition, condition.Status, condition.Message))
			}
		}
		return errors.Join(failures...)
	}
	return fmt.Errorf("there is no ControllerInstallation of %s for seed %s", registrationName, seedName)
}

// removeForeignAgent deletes a Deployment of the agent that no gardenlet has installed: its pods are selected by the
// name of another release, and what a Deployment selects cannot be changed.
func removeForeignAgent(ctx context.Context, c client.Client, key client.ObjectKey) error {
	deployment := &appsv1.Deployment{}
	if err := c.Get(ctx, key, deployment); err != nil {
		return client.IgnoreNotFound(err)
	}
	if deployment.Spec.Selector.MatchLabels["release"] == registrationName {
		return nil
	}
	return client.IgnoreNotFound(c.Delete(ctx, deployment, client.PropagationPolicy("Foreground"),
		client.Preconditions{UID: &deployment.UID}))
}
