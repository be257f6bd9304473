// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// settles is for how long a new kube-apiserver has to be ready before the others end.
const settles = 20 * time.Second

// annotationRestarted is on the pods of the source's kube-apiserver that have started after DNS had moved.
const annotationRestarted = "livecpm.gardener.cloud/restarted-for-clients"

// restartForClients makes clients leave where only the kube-apiserver can tell them to, because it ends their TLS. A
// kube-apiserver that ends gracefully continues for the delay of its shutdown, sends GOAWAY, closes idle connections
// and lets requests finish (what step 7 relies on as well). So its pods are replaced, as in any change of it: there are
// always as many as before. Clients that connect again arrive at the destination, by DNS. Whoever comes back with an
// old address may lose a request when a member stops, like clients of any kube-apiserver.
//
// It takes a time that nobody knows beforehand, so the destination is told when it begins and when it is over.
func (s *source) restartForClients(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if steps.SourceClientsLeft(m.Shoot) {
		return drainingClients("The kube-apiservers of the source have restarted, and clients have left them"), nil
	}
	i, err := s.ingressOf(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	door, err := i.readFrontDoor(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	if door == nil {
		return drainingClients("The kube-apiserver is not exposed any more, so that no client has to leave"), nil
	}
	// Before it begins: the destination does not wait for what it does not know of.
	if err := i.tellClients(ctx, steps.ClientsLeaving); err != nil {
		return steps.Outcome{}, err
	}
	left, err := i.restartKubeAPIServers(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	if left > 0 {
		return drainingClients("The kube-apiservers of the source restart, so that clients leave them: "+
			"%d are to go", left), nil
	}
	if err := i.tellClients(ctx, steps.ClientsLeft); err != nil {
		return steps.Outcome{}, err
	}
	return drainingClients("The kube-apiservers of the source have restarted, and clients have left them"), nil
}

func drainingClients(format string, args ...any) steps.Outcome {
	return steps.Waiting(10*time.Second, steps.ReasonDrainingClients, format, args...)
}

// tellClients says in the Shoot how far the clients are, unless that is there.
func (i *ingress) tellClients(ctx context.Context, value string) error {
	if i.migration.Shoot.Annotations[steps.AnnotationSourceClients] == value {
		return nil
	}
	if err := botanist.Annotate(ctx, i.botanist, steps.AnnotationSourceClients, strconv.Quote(value)); err != nil {
		return fmt.Errorf("failed to say that the clients of Shoot %s are %s: %w",
			client.ObjectKeyFromObject(i.migration.Shoot), value, err)
	}
	return nil
}

// restartKubeAPIServers lets the Deployment replace its pods, and returns how many of those from before are left.
//
// All new ones start before one of the others ends, as Gardener has it (maxSurge 100%), and have been ready for a
// while: where processors are short, a kube-apiserver that starts beside one that ends keeps that from telling its
// clients in time. Go's HTTP/2 server waits for one second after GOAWAY.
func (i *ingress) restartKubeAPIServers(ctx context.Context) (int, error) {
	var (
		deployment = &appsv1.Deployment{}
		key        = client.ObjectKey{Namespace: i.namespace, Name: v1beta1constants.DeploymentNameKubeAPIServer}
		reader     = i.SeedClientSet.APIReader()
	)
	found, err := controlplane.Exists(ctx, reader, key, deployment)
	if err != nil || !found {
		return 0, err
	}
	if _, begun := deployment.Spec.Template.Annotations[annotationRestarted]; !begun {
		patch := client.MergeFromWithOptions(deployment.DeepCopy(), client.MergeFromWithOptimisticLock{})
		metav1.SetMetaDataAnnotation(&deployment.Spec.Template.ObjectMeta, annotationRestarted, "true")
		all, none := intstr.FromString("100%"), intstr.FromInt32(0)
		deployment.Spec.MinReadySeconds = int32(settles.Seconds())
		deployment.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &all, MaxUnavailable: &none}}
		if err := i.SeedClientSet.Client().Patch(ctx, deployment, patch); err != nil {
			return 0, fmt.Errorf("failed to restart the pods of Deployment %s: %w", key, err)
		}
	}
	pods, err := controlplane.KubeAPIServerPods(ctx, reader, i.namespace)
	if err != nil {
		return 0, err
	}
	left := 0
	for _, pod := range pods {
		over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if _, restarted := pod.Annotations[annotationRestarted]; !restarted && !over {
			left++
		}
	}
	return left, nil
}
