// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/flow"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// startControllers is the destination's part in the step that cleans the source up: the source asks for it as soon as
// nothing is left of the controllers there. From then on nobody acts on the shoot, and what follows in the source (the
// graceful end of its kube-apiserver, the end of its namespace) takes a minute at best.
//
// Nobody waits here until they are ready: the last step does so, and must not begin late because of this. What is
// started already is left alone.
func (d *destination) startControllers(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	var (
		namespace = v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
		names     = passedControllers(m.Shoot, m.Step)
	)
	started, err := d.ControlPlane.Started(ctx, namespace, names...)
	if err != nil {
		return steps.Outcome{}, err
	}
	if started {
		return steps.Done("The controllers %v run in the destination", names), nil
	}
	replicas, err := d.kubeAPIServerReplicas(ctx, namespace)
	if err != nil {
		return steps.Outcome{}, err
	}
	b, err := d.botanist(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	// Components that only run with a kube-apiserver get no replicas otherwise.
	b.Shoot.Components.ControlPlane.KubeAPIServer.SetAutoscalingReplicas(&replicas)
	if err := flows.Run(ctx, m, steps.ReasonSourceControllersStopped, d.controllersGraph(b)); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("The controllers %v have been deployed in the destination", names), nil
}

// passedControllers returns the names of the Deployments that the shoot has, and that pass to the destination in the
// step when the source asks for it.
func passedControllers(shoot *gardencorev1beta1.Shoot, step steps.Step) []string {
	var names []string
	for _, set := range ownership.Sets() {
		if set.Deployment != "" && step.Ownership[set.Name] == steps.PassedWhenAsked &&
			(!set.OnlyWithWorkers || !v1beta1helper.IsWorkerless(shoot)) {
			names = append(names, set.Deployment)
		}
	}
	return names
}

// kubeAPIServerReplicas returns how many replicas the kube-apiserver has, which an earlier step has started.
func (d *destination) kubeAPIServerReplicas(ctx context.Context, namespace string) (int32, error) {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: v1beta1constants.DeploymentNameKubeAPIServer}
	if err := d.SeedClientSet.Client().Get(ctx, key, deployment); err != nil {
		return 0, fmt.Errorf("failed to read deployment %s, without which no controllers start: %w", key, err)
	}
	replicas := ptr.Deref(deployment.Spec.Replicas, 0)
	if replicas == 0 {
		return 0, fmt.Errorf("failed to start controllers: deployment %s has no replicas; find out who has scaled it",
			key)
	}
	return replicas, nil
}

// controllersGraph returns the flow that starts the controllers. It repeats nothing by itself: the source may finish
// its step meanwhile, and then the last step starts them.
func (d *destination) controllersGraph(b *botanist.Botanist) *flow.Graph {
	var (
		g    = flow.NewGraph("start of the controllers")
		base = d.addBase(g, b)

		keyKnown = g.Add(flow.Task{
			Name: "Looking up the key of service account tokens",
			Fn: func(ctx context.Context) error {
				return knowServiceAccountKey(ctx, b)
			},
			Dependencies: flow.NewTaskIDs(base.secrets),
		})
	)
	_ = g.Add(flow.Task{
		Name: "Deploying the kube-controller-manager",
		Fn: func(ctx context.Context) error {
			return b.DeployKubeControllerManager(ctx)
		},
		Dependencies: flow.NewTaskIDs(keyKnown, base.resources),
	})
	// It gives the others their access to the shoot, and serves webhooks.
	_ = g.Add(flow.Task{
		Name: "Deploying the resource manager",
		Fn: func(ctx context.Context) error {
			return b.DeployGardenerResourceManager(ctx)
		},
		Dependencies: flow.NewTaskIDs(base.secrets, base.resources),
	})
	_ = g.Add(flow.Task{
		Name: "Deploying the kube-scheduler",
		Fn: func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.KubeScheduler.Deploy(ctx)
		},
		SkipIf:       !withWorkers(b),
		Dependencies: flow.NewTaskIDs(base.secrets, base.resources),
	})
	return g
}

// knowServiceAccountKey makes the botanist's secrets manager know the key that the kube-apiserver signs with. A secrets
// manager knows only what it was asked for, and it is the deployment of the kube-apiserver that asks for this one
// (reconcileSecretServiceAccountKey in gardener's pkg/component/kubernetes/apiserver/secrets.go, whose request this
// repeats). That is not repeated here, because it could restart the kube-apiserver.
//
// It returns an error if that request makes a key that was not there before: the kube-apiserver does not know such a
// one, and the kube-controller-manager must not sign with it.
func knowServiceAccountKey(ctx context.Context, b *botanist.Botanist) error {
	const name = v1beta1constants.SecretNameServiceAccountKey
	existing := &metav1.PartialObjectMetadataList{}
	existing.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := b.SeedClientSet.Client().List(ctx, existing, client.InNamespace(b.Shoot.ControlPlaneNamespace),
		client.MatchingLabels{secretsmanager.LabelKeyName: name}); err != nil {
		return fmt.Errorf("failed to list the secrets of %s in namespace %s: %w", name, b.Shoot.ControlPlaneNamespace,
			err)
	}
	if len(existing.Items) == 0 {
		return fmt.Errorf("failed to find the secret of %s in namespace %s: the deployment of the kube-apiserver "+
			"makes it, so the kube-apiserver does not run there", name, b.Shoot.ControlPlaneNamespace)
	}
	secret, err := b.SecretsManager.Generate(ctx, &secretsutils.RSASecretConfig{Name: name, Bits: 4096},
		secretsmanager.Persist(), secretsmanager.Rotate(secretsmanager.KeepOld))
	if err != nil {
		return fmt.Errorf("failed to look up the secret of %s: %w", name, err)
	}
	if !slices.ContainsFunc(existing.Items, func(item metav1.PartialObjectMetadata) bool {
		return item.Name == secret.Name
	}) {
		return fmt.Errorf("failed to find the key that the kube-apiserver signs with: secret %s/%s was not there; "+
			"the kube-controller-manager starts in the last step, after the kube-apiserver was deployed with it",
			secret.Namespace, secret.Name)
	}
	return nil
}
