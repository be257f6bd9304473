// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package stranded tells which pods nobody will ever report as gone.
package stranded

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// After is how long after its end was due a pod counts as stranded.
const After = 30 * time.Second

// Pod reports whether a pod that was told to end is one that nobody will report as gone. Its deletion timestamp is when
// its end was due, grace included. A kubelet removes a pod within seconds of that. On a lost node there is none: the
// pod stays until somebody deletes the node or the pod by force, and the node lifecycle controller makes it not ready
// when the kubelet has been silent for the grace period of nodes. A pod that a finalizer keeps looks the same, because
// its containers have ended. As long as a pod is ready, neither is known.
//
// It does not say that the containers have ended: on a node that is only cut off they may run. Whoever does not wait
// for a stranded pod has to say why they do no harm.
func Pod(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) >= After && !ready(pod)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Describe names the pod, its node and the way out.
func Describe(pod *corev1.Pod) string {
	return fmt.Sprintf("pod %s should have ended at %s, and node %s does not report that; if the node is lost, delete "+
		"the Node, or give it the taint %s=nodeshutdown:NoExecute", pod.Name,
		pod.DeletionTimestamp.UTC().Format(time.RFC3339), pod.Spec.NodeName, corev1.TaintNodeOutOfService)
}
