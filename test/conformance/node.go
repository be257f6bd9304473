// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// NodeName is the name of the hollow node.
const NodeName = "livecpm-conformance-hollow"

// AddNode makes a node that is nothing but an object that says it is ready. The framework of the specs demands one node
// that is ready and schedulable, and some specs reckon how many pods it has room for. In a shoot without workers no
// controller looks after nodes and no scheduler binds pods, so the object stays as it is, and no pod ever runs.
func AddNode(ctx context.Context, kube kubernetes.Interface) error {
	if err := RemoveNode(ctx, kube); err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				Reason: "Hollow", Message: "there is no machine behind this node"}},
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")},
		},
	}
	if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("failed to create node %s: %w", NodeName, err)
	}
	// Admission taints each new node as not ready, and nobody else takes that away here.
	if _, err := kube.CoreV1().Nodes().Patch(ctx, NodeName, types.MergePatchType, []byte(`{"spec":{"taints":null}}`),
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("failed to take the taints from node %s: %w", NodeName, err)
	}
	return nil
}

// RemoveNode takes the hollow node away, if it is there.
func RemoveNode(ctx context.Context, kube kubernetes.Interface) error {
	if err := kube.CoreV1().Nodes().Delete(ctx, NodeName, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to delete node %s: %w", NodeName, err)
	}
	return nil
}
