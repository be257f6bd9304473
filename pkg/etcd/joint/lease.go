// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// annotationPeerTLS is what the sidecar of a running member says about it on the member's Lease (etcd-druid,
// internal/common/constants.go).
const annotationPeerTLS = "member.etcd.gardener.cloud/tls-enabled"

// AnnounceMembers creates the Leases of the members that the Etcd has with so many replicas, unless they exist.
//
// etcd-druid would create them by itself, and would then wait for no good reason. Before it scales, it asks whether the
// running members have TLS between them, and takes for their Leases the first ones in the order in which its cache
// lists them, which is any order (internal/utils/kubernetes/lease.go). The Lease of the new member, which it has just
// created without the annotation, is more often among them than not, and etcd-druid asks again ten seconds later. The
// annotation that the Lease has from the start is what the specification of the Etcd says of all its members.
func AnnounceMembers(ctx context.Context, c client.Client, etcd *druidcorev1alpha1.Etcd, replicas int32) error {
	if etcd.Spec.Etcd.PeerUrlTLS == nil {
		return nil
	}
	scaled := etcd.DeepCopy()
	scaled.Spec.Replicas = replicas
	for _, name := range druidcorev1alpha1.GetMemberLeaseNames(scaled) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: etcd.Namespace, Name: name, Annotations: map[string]string{annotationPeerTLS: "true"},
		}}
		if err := c.Create(ctx, lease); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("failed to create Lease %s: %w", client.ObjectKeyFromObject(lease), err)
		}
	}
	return nil
}
