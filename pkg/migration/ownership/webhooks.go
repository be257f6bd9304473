// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	// WebhookServer is the name of a Deployment in a shoot's namespace whose pods answer the webhooks of the resource
	// manager beside it, and do nothing else. It is also the name of their ServiceAccount, and of the Lease that a pod
	// would have to hold to do more.
	WebhookServer = "livecpm-webhooks"
	// WebhookServerHolder is who holds that Lease: nobody who ever gives it back.
	WebhookServerHolder = "nobody: these resource managers only answer webhooks"
)

// OnlyAnswersWebhooks reports whether there is evidence that a pod of the WebhookServer does not act. It has the
// ServiceAccount that may write nothing, the Lease by which such pods would elect one that acts is held by nobody, and
// none of the other Leases in the namespace names the pod. What is missing is no evidence.
func OnlyAnswersWebhooks(pod *corev1.Pod, leases []coordinationv1.Lease) bool {
	held := false
	for _, lease := range leases {
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		if holdsAs(holder, pod.Name) {
			return false
		}
		held = held || lease.Name == WebhookServer && holder == WebhookServerHolder
	}
	return held && pod.Spec.ServiceAccountName == WebhookServer
}

// holdsAs reports whether the holder of a Lease is a process of the pod: its host name, and what makes it unique
// (NewResourceLock in controller-runtime's pkg/leaderelection).
func holdsAs(holder, pod string) bool {
	return holder == pod || len(holder) > len(pod) && holder[:len(pod)+1] == pod+"_"
}
