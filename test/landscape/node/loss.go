// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/landscape/network"
)

// forgetTimeout bounds how long etcd-druid's admission may refuse what has been permitted already; it is asked again
// after forgetInterval.
const forgetTimeout, forgetInterval = 30 * time.Second, 500 * time.Millisecond

// end ends the node like a machine that loses its power: everything on it, and its connection.
func (h *host) end() error {
	if err := machine.KillIn(network.Path(h.node.Netns)); err != nil {
		return fmt.Errorf("failed to end %s: %w", h.node.Name, err)
	}
	return network.Remove(h.node.Netns)
}

// host returns one of several nodes. A seed's only node cannot be lost without the cluster.
func (n *Node) host(name string) (*host, error) {
	node, err := n.seed.Node(name)
	if err != nil {
		return nil, err
	}
	if !n.seed.Apart() {
		return nil, fmt.Errorf("%s is the only node of its cluster", name)
	}
	return &host{Node: n, node: node}, nil
}

// PowerOff ends a node like a machine that loses its power. Its volumes were in memory and are lost. The cluster is
// told nothing.
func (n *Node) PowerOff(name string) error {
	h, err := n.host(name)
	if err != nil {
		return err
	}
	return h.end()
}

// Forget does what an operator does when a machine does not come back: it deletes the Node, and the claims and volumes
// that were bound to it, so that empty ones can take their place. It returns the names of the claims.
func (n *Node) Forget(ctx context.Context, name string) ([]client.ObjectKey, error) {
	if _, err := n.host(name); err != nil {
		return nil, err
	}
	c, err := n.Client()
	if err != nil {
		return nil, err
	}
	volumes := &corev1.PersistentVolumeList{}
	if err := c.List(ctx, volumes); err != nil {
		return nil, fmt.Errorf("failed to list volumes of %s: %w", n.seed.Name, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to delete node %s: %w", name, err)
	}
	var claims []client.ObjectKey
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if !boundTo(volume, name) {
			continue
		}
		if ref := volume.Spec.ClaimRef; ref != nil {
			claims = append(claims, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
			if err := deleteClaim(ctx, c, ref); err != nil {
				return nil, fmt.Errorf("failed to delete claim %s/%s: %w", ref.Namespace, ref.Name, err)
			}
		}
		// Nobody is left who could empty it: its provisioner would wait for a pod on the node.
		patch := client.MergeFrom(volume.DeepCopy())
		volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		if err := c.Patch(ctx, volume, patch); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("failed to give up volume %s: %w", volume.Name, err)
		}
		if err := c.Delete(ctx, volume); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("failed to delete volume %s: %w", volume.Name, err)
		}
	}
	return claims, n.deletePods(ctx, c, name)
}

// deleteClaim deletes a claim as operators do (docs/operations/recovery.md): etcd-druid keeps people from those of its
// members as long as the Etcd does not permit it. An annotation that somebody else has set stays.
func deleteClaim(ctx context.Context, c client.Client, ref *corev1.ObjectReference) (err error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err = c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if etcd, managed := claim.Labels[druidcorev1alpha1.LabelPartOfKey]; managed {
		var withdraw func() error
		if withdraw, err = permit(ctx, c, client.ObjectKey{Namespace: ref.Namespace, Name: etcd}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, withdraw()) }()
	}
	// The admission sees the annotation a moment later than the API server, and refuses until then.
	var last error
	if err := wait.PollUntilContextTimeout(ctx, forgetInterval, forgetTimeout, true,
		func(ctx context.Context) (bool, error) {
			last = client.IgnoreNotFound(c.Delete(ctx, claim, client.Preconditions{UID: &ref.UID}))
			return last == nil, nil
		}); err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// permit annotates the Etcd so that people may change what belongs to it, and returns what takes that back.
func permit(ctx context.Context, c client.Client, key client.ObjectKey) (withdraw func() error, err error) {
	etcd := &metav1.PartialObjectMetadata{}
	etcd.SetGroupVersionKind(druidcorev1alpha1.SchemeGroupVersion.WithKind("Etcd"))
	nothing := func() error { return nil }
	if err := c.Get(ctx, key, etcd); apierrors.IsNotFound(err) {
		return nothing, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get Etcd %s: %w", key, err)
	}
	if metav1.HasAnnotation(etcd.ObjectMeta, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation) {
		return nothing, nil
	}
	before := etcd.DeepCopy()
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation, "true")
	if err := c.Patch(ctx, etcd, client.MergeFrom(before)); err != nil {
		return nil, fmt.Errorf("failed to annotate Etcd %s: %w", key, err)
	}
	return func() error {
		before := etcd.DeepCopy()
		delete(etcd.Annotations, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)
		if err := c.Patch(ctx, etcd, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to take the annotation from Etcd %s: %w", key, err)
		}
		return nil
	}, nil
}

// deletePods deletes the pods of a node that is no more. Their claims are released by it.
func (n *Node) deletePods(ctx context.Context, c client.Client, name string) error {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods); err != nil {
		return fmt.Errorf("failed to list pods of %s: %w", n.seed.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != name {
			continue
		}
		if err := c.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// boundTo reports whether a volume can be used on the given node only.
func boundTo(volume *corev1.PersistentVolume, name string) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return false
	}
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, expression := range append(term.MatchExpressions, term.MatchFields...) {
			if expression.Operator == corev1.NodeSelectorOpIn && len(expression.Values) == 1 &&
				expression.Values[0] == name {
				return true
			}
		}
	}
	return false
}

// Off returns the nodes that do not run, or not completely. It is empty where the seed has one node.
func (n *Node) Off() []string {
	var off []string
	for _, h := range n.hosts() {
		if n.seed.Apart() && (!h.powered() || n.processes.PID(h.node.Name+"-kubelet") == 0) {
			off = append(off, h.node.Name)
		}
	}
	return off
}

func (h *host) powered() bool { return h.processes.PID(h.node.Name+"-nodeinit") != 0 }

// Replace forgets the nodes that have lost their power, and brings empty ones in their places. It can be called again
// when it fails: nodes that run by then are only completed.
func (n *Node) Replace(ctx context.Context, report func(format string, args ...any)) error {
	for _, name := range n.Off() {
		h, err := n.host(name)
		if err != nil {
			return err
		}
		if h.powered() {
			continue
		}
		claims, err := n.Forget(ctx, name)
		if err != nil {
			return err
		}
		report("forgot node %s with the volumes of %v", name, claims)
		if err := h.empty(); err != nil {
			return err
		}
	}
	return n.Up(ctx, report)
}

// empty leaves the node with the images that it had and nothing else. Images cannot be pulled here.
func (h *host) empty() error {
	for _, folder := range []string{"kubelet", "volumes", "pod-logs", "root"} {
		if err := os.RemoveAll(h.dir(folder)); err != nil {
			return fmt.Errorf("failed to empty %s: %w", h.node.Name, err)
		}
	}
	return nil
}

// AwaitNotReady waits until the cluster has noticed that a node is gone.
func (n *Node) AwaitNotReady(ctx context.Context, name string) error {
	c, err := n.Client()
	if err != nil {
		return err
	}
	var last error
	if err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		if last = c.Get(ctx, client.ObjectKey{Name: name}, node); last != nil {
			return false, nil //nolint:nilerr // Looks again; the wait reports the last error.
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	}); err != nil {
		return errors.Join(fmt.Errorf("failed to wait until %s is not ready: %w", name, err), last)
	}
	return nil
}
