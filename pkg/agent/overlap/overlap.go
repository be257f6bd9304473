// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package overlap holds what must be in a shoot while two seeds run its control plane.
//
// It runs a second copy (a twin) of one of Gardener's own components, beside the regular one: a VPN client that
// connects to the destination while the regular one still serves the source, and an apiserver-proxy that serves the
// destination's address of the kube-apiserver while the regular one serves the source's.
//
// Gardener's component writes the objects of a twin; they only get names and labels of their own (Prefix, LabelTwin).
// They are written into the shoot directly, because the resource manager that would do it otherwise runs in one seed at
// a time.
//
// KeepEndpoints keeps clients inside of the shoot from losing their kube-apiserver while kube-apiservers of both seeds
// publish the same address.
package overlap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Prefix is how the names of all objects of a twin begin.
	Prefix = "livecpm-"
	// LabelTwin is a label on all objects of a twin and on its pods. Its value is the twin's name.
	LabelTwin = "livecpm.gardener.cloud/twin"

	// VPN is the name of the twin of the VPN client.
	VPN = "vpn-shoot"
	// APIServerProxy is the name of the twin of the apiserver-proxy.
	APIServerProxy = "apiserver-proxy"
)

// Apply writes the objects of a twin into the shoot. Workloads come last, so that what they refer to is there.
func Apply(ctx context.Context, shoot client.Client, objects []client.Object) error {
	for _, last := range []bool{false, true} {
		for _, object := range objects {
			if workload(object) != last {
				continue
			}
			if err := apply(ctx, shoot, object); err != nil {
				return fmt.Errorf("failed to write %T %s into the shoot: %w", object,
					client.ObjectKeyFromObject(object), err)
			}
		}
	}
	return nil
}

func apply(ctx context.Context, shoot client.Client, desired client.Object) error {
	object := desired.DeepCopyObject().(client.Object)
	object.SetResourceVersion("")
	err := shoot.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}

	current := desired.DeepCopyObject().(client.Object)
	if err := shoot.Get(ctx, client.ObjectKeyFromObject(desired), current); err != nil {
		return err
	}
	if current.GetLabels()[LabelTwin] != desired.GetLabels()[LabelTwin] {
		return fmt.Errorf("there is another object of that name, which does not have the label %s=%s: delete "+
			"or rename it", LabelTwin, desired.GetLabels()[LabelTwin])
	}
	if secret, ok := current.(*corev1.Secret); ok && secret.Immutable != nil && *secret.Immutable {
		// Its name tells its content.
		return nil
	}
	if configMap, ok := current.(*corev1.ConfigMap); ok && configMap.Immutable != nil && *configMap.Immutable {
		return nil
	}
	object = desired.DeepCopyObject().(client.Object)
	object.SetResourceVersion(current.GetResourceVersion())
	return shoot.Update(ctx, object)
}

func workload(object client.Object) bool {
	switch object.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet:
		return true
	}
	return false
}

// Destroy deletes all objects of the twin from the shoot.
func Destroy(ctx context.Context, shoot client.Client, name string) error {
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{},
		&policyv1.PodDisruptionBudgetList{},
		&networkingv1.NetworkPolicyList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{},
	} {
		if err := shoot.List(ctx, list, selection(name)...); err != nil {
			return fmt.Errorf("failed to list what is left of the twin of %s in the shoot: %w", name, err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			if err := shoot.Delete(ctx, object,
				client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("failed to delete %T %s from the shoot: %w", object,
					client.ObjectKeyFromObject(object), err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// CheckGone returns an error as long as a pod of the twin is left.
func CheckGone(ctx context.Context, shoot client.Client, name string) error {
	pods := &corev1.PodList{}
	if err := shoot.List(ctx, pods, selection(name)...); err != nil {
		return fmt.Errorf("failed to list the pods of the twin of %s: %w", name, err)
	}
	if n := len(pods.Items); n > 0 {
		return fmt.Errorf("%d pods of the twin of %s are left", n, name)
	}
	return nil
}

// CheckOnEveryNode returns an error unless a pod of the twin is ready on every node that is ready.
func CheckOnEveryNode(ctx context.Context, shoot client.Client, name string) error {
	daemonSets := &appsv1.DaemonSetList{}
	if err := shoot.List(ctx, daemonSets, selection(name)...); err != nil {
		return fmt.Errorf("failed to list the DaemonSet of the twin of %s: %w", name, err)
	}
	if len(daemonSets.Items) == 0 {
		return fmt.Errorf("the twin of %s has no DaemonSet", name)
	}
	for _, daemonSet := range daemonSets.Items {
		if daemonSet.Status.ObservedGeneration < daemonSet.Generation ||
			daemonSet.Status.UpdatedNumberScheduled < daemonSet.Status.DesiredNumberScheduled {
			return fmt.Errorf("DaemonSet %s is being rolled out", daemonSet.Name)
		}
	}

	nodes, err := ReadyNodes(ctx, shoot)
	if err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := shoot.List(ctx, pods, selection(name)...); err != nil {
		return fmt.Errorf("failed to list the pods of the twin of %s: %w", name, err)
	}
	missing := sets.New(nodes...)
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && health.IsPodReady(&pod) {
			missing.Delete(pod.Spec.NodeName)
		}
	}
	if missing.Len() > 0 {
		return fmt.Errorf("the twin of %s is not ready on %d of %d nodes: %s", name, missing.Len(), len(nodes),
			strings.Join(sets.List(missing), ", "))
	}
	return nil
}

// ReadyNodes returns the names of the nodes that are ready and not being deleted, sorted. It returns an error if there
// are nodes and none is ready: what runs on them, and whether they can be reached, is not known then.
func ReadyNodes(ctx context.Context, shoot client.Client) ([]string, error) {
	nodes := &corev1.NodeList{}
	if err := shoot.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("failed to list the nodes of the shoot: %w", err)
	}
	var (
		out     []string
		staying int
	)
	for _, node := range nodes.Items {
		if node.DeletionTimestamp != nil {
			continue
		}
		staying++
		if slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}) {
			out = append(out, node.Name)
		}
	}
	if staying > 0 && len(out) == 0 {
		return nil, fmt.Errorf("none of the %d nodes of the shoot is ready", staying)
	}
	slices.Sort(out)
	return out, nil
}

func selection(name string) []client.ListOption {
	return []client.ListOption{client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{LabelTwin: name}}
}

// errUnknownKind is returned for objects that a later version of Gardener may add to its components. A developer has to
// decide what a twin needs of them.
var errUnknownKind = errors.New("a component of Gardener has an object of a kind that its twin does not know")

// rename gives the objects of a component the names and labels of its twin and leaves out those that the twin does not
// need.
func rename(name string, objects []client.Object) ([]client.Object, error) {
	var (
		out []client.Object
		// selectors are the labels by which the component's objects find its pods.
		selectors = map[string]string{}
	)
	for _, object := range objects {
		if pods := podsOf(object); pods != nil {
			for key, value := range pods.selector.MatchLabels {
				selectors[key] = value
			}
		}
	}

	for _, object := range objects {
		object = object.DeepCopyObject().(client.Object)
		switch o := object.(type) {
		case *corev1.Secret, *corev1.ConfigMap, *corev1.ServiceAccount:
		case *networkingv1.NetworkPolicy:
			renameLabels(selectors, o.Spec.PodSelector.MatchLabels)
			for _, rule := range o.Spec.Ingress {
				for _, peer := range rule.From {
					if peer.PodSelector != nil {
						renameLabels(selectors, peer.PodSelector.MatchLabels)
					}
				}
			}
		case *policyv1.PodDisruptionBudget:
			renameLabels(selectors, o.Spec.Selector.MatchLabels)
		case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet:
			renamePods(name, selectors, podsOf(object))
		case *corev1.Service, *vpaautoscalingv1.VerticalPodAutoscaler:
			// Nobody scrapes a twin, and its size is not adapted.
			continue
		default:
			return nil, fmt.Errorf("%w: %T %s", errUnknownKind, object, object.GetName())
		}
		object.SetName(Prefix + object.GetName())
		object.SetNamespace(metav1.NamespaceSystem)
		labels := object.GetLabels()
		renameLabels(selectors, labels)
		object.SetLabels(withTwin(name, withoutCollection(labels)))
		object.SetAnnotations(withoutReferences(object.GetAnnotations()))
		out = append(out, object)
	}
	return out, nil
}

// pods is what the kinds of workloads have in common.
type pods struct {
	selector *metav1.LabelSelector
	template *corev1.PodTemplateSpec
}

func podsOf(object client.Object) *pods {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &pods{o.Spec.Selector, &o.Spec.Template}
	case *appsv1.StatefulSet:
		return &pods{o.Spec.Selector, &o.Spec.Template}
	case *appsv1.DaemonSet:
		return &pods{o.Spec.Selector, &o.Spec.Template}
	}
	return nil
}

func renamePods(name string, selectors map[string]string, pods *pods) {
	renameLabels(selectors, pods.selector.MatchLabels)
	pods.selector.MatchLabels = withTwin(name, pods.selector.MatchLabels)
	renameLabels(selectors, pods.template.Labels)
	pods.template.Labels = withTwin(name, pods.template.Labels)
	pods.template.Annotations = withoutReferences(pods.template.Annotations)

	spec := &pods.template.Spec
	if spec.ServiceAccountName != "" {
		spec.ServiceAccountName = Prefix + spec.ServiceAccountName
		spec.DeprecatedServiceAccount = "" //nolint:staticcheck // The defaulting of an old API may have filled it.
	}
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		if volume.Secret != nil {
			volume.Secret.SecretName = Prefix + volume.Secret.SecretName
		}
		if volume.ConfigMap != nil {
			volume.ConfigMap.Name = Prefix + volume.ConfigMap.Name
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				source.Secret.Name = Prefix + source.Secret.Name
			}
			if source.ConfigMap != nil {
				source.ConfigMap.Name = Prefix + source.ConfigMap.Name
			}
		}
	}

	// What the resource manager's webhook adds to Gardener's pods. It cannot be reached while no resource manager runs.
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// renameLabels changes those of the labels by which the regular component's objects find its pods.
func renameLabels(selectors, labels map[string]string) {
	for key, value := range selectors {
		if labels[key] == value {
			labels[key] = Prefix + value
		}
	}
}

func withTwin(name string, labels map[string]string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelTwin] = name
	return labels
}

// labelCollectable marks objects that the resource manager may delete when no workload refers to them.
const labelCollectable = "resources.gardener.cloud/garbage-collectable-reference"

// annotationReference is how the annotations begin by which a workload refers to such objects.
const annotationReference = "reference.resources.gardener.cloud/"

func withoutCollection(labels map[string]string) map[string]string {
	delete(labels, labelCollectable)
	return labels
}

func withoutReferences(annotations map[string]string) map[string]string {
	for key := range annotations {
		if strings.HasPrefix(key, annotationReference) {
			delete(annotations, key)
		}
	}
	return annotations
}

// onSystemPools restricts pods to the worker pools that Gardener's own pods may run in.
func onSystemPools(spec *corev1.PodSpec) {
	if spec.NodeSelector == nil {
		spec.NodeSelector = map[string]string{}
	}
	spec.NodeSelector[v1beta1constants.LabelWorkerPoolSystemComponents] = "true"
}
