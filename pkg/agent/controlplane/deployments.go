// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	kubeapiserver "github.com/gardener/gardener/pkg/component/kubernetes/apiserver"
	"github.com/gardener/gardener/pkg/utils/retry"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/stranded"
)

// Controllers are the Deployments in a shoot's namespace that act on the shoot and must not run in two seeds.
var Controllers = ownership.Exclusive()

// serialized are the Deployments whose pods do no harm on a node that is lost, or that is only cut off: others take
// their place. kube-controller-manager and kube-scheduler hold a lease inside of the shoot as long as they act. A
// kube-apiserver reaches etcd only as long as the way between the seeds is there, and until then it is one more on the
// same data; the ingress gateway leads nobody to a pod that is not ready. What answers webhooks in place of the
// resource manager does not act. Everything else acts past the shoot: on machines, or on objects of the seed.
var serialized = []string{v1beta1constants.DeploymentNameKubeControllerManager,
	v1beta1constants.DeploymentNameKubeScheduler, v1beta1constants.DeploymentNameKubeAPIServer,
	ownership.WebhookServer}

// DeleteDeployments deletes the Deployments and waits until their last pod is gone: in foreground deletion the object
// outlives its pods. They are deleted instead of scaled because others scale them too (dependency-watchdog,
// autoscalers). Deployments that do not exist are no error.
//
// Pods on a lost node never go. It does not wait for those that do no harm there (serialized), and names the others: an
// operator, or the seed's own controllers, has to say that the node is gone.
func (c *ControlPlane) DeleteDeployments(ctx context.Context, namespace string, names ...string) error {
	seed, timings := c.options.SeedClientSet.Client(), c.options.Timings
	for _, name := range names {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		if err := seed.Delete(ctx, deployment,
			client.PropagationPolicy(metav1.DeletePropagationForeground)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete deployment %s/%s: %w", namespace, name, err)
		}
	}
	return retry.UntilTimeout(ctx, timings.PollInterval, timings.RolloutTimeout,
		func(ctx context.Context) (bool, error) {
			left, err := c.Left(ctx, namespace, names...)
			if err == nil && left != "" {
				err = errors.New(left)
			}
			if err != nil {
				return retry.MinorError(err)
			}
			return retry.Ok()
		})
}

// Left says what is left of the Deployments, as a sentence; empty if neither they nor pods of theirs exist, but for
// pods of serialized ones that are stranded. Somebody else may have deleted one in another way than DeleteDeployments
// does, so that its pods stay without it.
func (c *ControlPlane) Left(ctx context.Context, namespace string, names ...string) (string, error) {
	for _, name := range names {
		left, err := c.leftOf(ctx, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil || left != "" {
			return left, err
		}
	}
	pods := &corev1.PodList{}
	if err := c.options.SeedClientSet.Client().List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("failed to list the pods in namespace %s: %w", namespace, err)
	}
	for _, pod := range pods.Items {
		name := deploymentOf(&pod)
		lost := slices.Contains(serialized, name) && stranded.Pod(&pod, c.options.Clock.Now())
		if slices.Contains(names, name) && !lost {
			return fmt.Sprintf("pod %s/%s is still there, although deployment %s is gone", namespace, pod.Name, name),
				nil
		}
	}
	return "", nil
}

// leftOf says what is left of a Deployment; empty if it does not exist, or if it is being deleted, is serialized, and
// all of its pods are stranded.
func (c *ControlPlane) leftOf(ctx context.Context, key client.ObjectKey) (string, error) {
	deployment := &appsv1.Deployment{}
	err := c.options.SeedClientSet.Client().Get(ctx, key, deployment)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("failed to read deployment %s: %w", key, err)
	}
	lost, err := c.onlyLostPods(ctx, deployment)
	switch {
	case err != nil:
		return "", err
	case len(lost) == 0:
		return fmt.Sprintf("deployment %s still has pods", key), nil
	case deployment.DeletionTimestamp == nil || !slices.Contains(serialized, key.Name):
		return fmt.Sprintf("deployment %s still has pods: %s", key, strings.Join(lost, "; ")), nil
	}
	return "", nil
}

// deploymentOf returns the name of the Deployment that the pod was made for; empty if there is none.
func deploymentOf(pod *corev1.Pod) string {
	for _, owner := range pod.OwnerReferences {
		hash, found := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		if name, cut := strings.CutSuffix(owner.Name, "-"+hash); owner.Kind == "ReplicaSet" && found && cut {
			return name
		}
	}
	return ""
}

// KubeAPIServerPods returns the pods of the kube-apiserver in the namespace of a shoot.
func KubeAPIServerPods(ctx context.Context, seed client.Reader, namespace string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := seed.List(ctx, pods, client.InNamespace(namespace),
		client.MatchingLabels(kubeapiserver.GetLabels())); err != nil {
		return nil, fmt.Errorf("failed to list the pods of the kube-apiserver in namespace %s: %w", namespace, err)
	}
	return pods.Items, nil
}

// Started reports whether all of the Deployments have been started: an available pod of each is there.
func (c *ControlPlane) Started(ctx context.Context, namespace string, names ...string) (bool, error) {
	for _, name := range names {
		deployment := &appsv1.Deployment{}
		found, err := Exists(ctx, c.options.SeedClientSet.Client(), client.ObjectKey{Namespace: namespace, Name: name},
			deployment)
		if err != nil {
			return false, err
		}
		if !found || deployment.DeletionTimestamp != nil || deployment.Status.AvailableReplicas == 0 {
			return false, nil
		}
	}
	return true, nil
}

// onlyLostPods describes the pods of a Deployment that is being deleted if all that are left are stranded. It is empty
// if others are left, or none, because then the Deployment is about to go.
func (c *ControlPlane) onlyLostPods(ctx context.Context, deployment *appsv1.Deployment) ([]string, error) {
	if deployment.Spec.Selector == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("failed to read the selector of deployment %s: %w",
			client.ObjectKeyFromObject(deployment), err)
	}
	pods := &corev1.PodList{}
	if err := c.options.SeedClientSet.Client().List(ctx, pods, client.InNamespace(deployment.Namespace),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("failed to list the pods of deployment %s: %w", client.ObjectKeyFromObject(deployment),
			err)
	}
	var lost []string
	for _, pod := range pods.Items {
		// The selector of the resource manager also finds the pods that answer webhooks in its place.
		if name := deploymentOf(&pod); name != "" && name != deployment.Name {
			continue
		}
		if !stranded.Pod(&pod, c.options.Clock.Now()) {
			return nil, nil
		}
		lost = append(lost, stranded.Describe(&pod))
	}
	return lost, nil
}
