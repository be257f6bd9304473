// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// PodLogs reads logs of pods.
type PodLogs interface {
	// Logs returns the log; the caller closes it.
	Logs(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)
}

// Logs implements PodLogs.
func (f *Forwarder) Logs(
	ctx context.Context, namespace, pod string, options *corev1.PodLogOptions,
) (io.ReadCloser, error) {
	stream, err := f.kube.CoreV1().Pods(namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to read the log of container %s of pod %s/%s in %s: %w", options.Container,
			namespace, pod, f.name, err)
	}
	return stream, nil
}
