// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Status is status for tests.
func (n *Node) Status(now metav1.Time) corev1.NodeStatus { return n.status(now) }

// Agent is agent for tests.
func (n *Node) Agent(ctx context.Context, client kubernetes.Interface) error {
	return n.agent(ctx, client)
}

// KeepNode is keepNode for tests.
func (n *Node) KeepNode(ctx context.Context, client kubernetes.Interface) error {
	return n.keepNode(ctx, client)
}

// KubeletHandler is kubeletHandler for tests.
func (n *Node) KubeletHandler() http.Handler { return n.kubeletHandler() }

// VPNCertificates returns what the VPN client of the pod reads, and whether the pod is one.
func VPNCertificates(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (map[string][]byte, bool, error) {
	vpn, ok := newVPNClient(logr.Discard(), client, pod)
	if !ok {
		return nil, false, nil
	}
	files, err := vpn.certificates(ctx)
	return files, true, err
}
