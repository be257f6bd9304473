// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// imageTroubles are why a container waits that has no image, or cannot be made of it.
var imageTroubles = append([]string{"CreateContainerConfigError", "CreateContainerError"}, pullTroubles...)

// troubles says, as far as the seed tells, why pods are not ready: nodes, quotas, images.
func (s *stage) troubles(ctx context.Context) []string {
	pods := &corev1.PodList{}
	if err := s.options.SeedClient.List(ctx, pods, client.InNamespace(s.values.Namespace)); err != nil {
		return []string{fmt.Sprintf("failed to list the pods in namespace %s: %v", s.values.Namespace, err)}
	}
	var out []string
	for i := range pods.Items {
		out = append(out, ofPod(&pods.Items[i])...)
	}
	events := &corev1.EventList{}
	if err := s.options.SeedClient.List(ctx, events, client.InNamespace(s.values.Namespace)); err != nil {
		return append(out, fmt.Sprintf("failed to list the events in namespace %s: %v", s.values.Namespace, err))
	}
	for i := range events.Items {
		event := &events.Items[i]
		// A pod that was refused is not there to tell.
		if event.Type == corev1.EventTypeWarning && event.InvolvedObject.Kind == "StatefulSet" {
			out = append(out, fmt.Sprintf("StatefulSet %s: %s: %s", event.InvolvedObject.Name, event.Reason,
				event.Message))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ofPod(pod *corev1.Pod) []string {
	var out []string
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			what := ""
			if need, ofRoom := pod.Labels[LabelRoom]; ofRoom {
				what = fmt.Sprintf(", which requests as much as one of %s", need)
			}
			out = append(out, fmt.Sprintf("no node takes pod %s%s: %s", pod.Name, what, condition.Message))
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case strings.HasPrefix(status.Name, pullPrefix):
			if cannotPull(status) {
				out = append(out, fmt.Sprintf("node %s cannot pull image %s of %s: %s: %s", pod.Spec.NodeName,
					imageOf(pod, status), strings.TrimLeft(strings.TrimPrefix(status.Name, pullPrefix), "0123456789-"),
					status.State.Waiting.Reason, shortened(status.State.Waiting.Message)))
			}
		case status.State.Waiting != nil && slices.Contains(imageTroubles, status.State.Waiting.Reason):
			out = append(out, fmt.Sprintf("image %s of pod %s: %s: %s", status.Image, pod.Name,
				status.State.Waiting.Reason, shortened(status.State.Waiting.Message)))
		case status.LastTerminationState.Terminated != nil:
			out = append(out, fmt.Sprintf("container %s of pod %s has ended with code %d", status.Name, pod.Name,
				status.LastTerminationState.Terminated.ExitCode))
		}
	}
	return out
}

// imageOf returns the image as the pod refers to it. The kubelet may report another name of the same one.
func imageOf(pod *corev1.Pod, status corev1.ContainerStatus) string {
	for _, container := range pod.Spec.Containers {
		if container.Name == status.Name {
			return container.Image
		}
	}
	return status.Image
}
