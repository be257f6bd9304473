// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package planted

import (
	"context"
	"fmt"
	"strings"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// marked is on what a fault has changed; its value is what was there before.
	marked = "planted.livecpm.gardener.cloud/before"
	// elsewhere is an address for documentation (RFC 5737), which nobody has.
	elsewhere = "192.0.2.77"
)

// closeNodes closes all nodes of the seed. What runs on them stays.
func closeNodes(ctx context.Context, w *World) error {
	return onNodes(ctx, w, func(node *corev1.Node) bool {
		if node.Spec.Unschedulable {
			return false
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, marked, "open")
		node.Spec.Unschedulable = true
		return true
	})
}

// openNodes opens the nodes that a fault has closed.
func openNodes(ctx context.Context, w *World) error {
	return onNodes(ctx, w, func(node *corev1.Node) bool {
		if _, closed := node.Annotations[marked]; !closed {
			return false
		}
		delete(node.Annotations, marked)
		node.Spec.Unschedulable = false
		return true
	})
}

// onNodes changes the nodes for which change returns true.
func onNodes(ctx context.Context, w *World, change func(*corev1.Node) bool) error {
	nodes := &corev1.NodeList{}
	if err := w.Seed.Client.List(ctx, nodes); err != nil {
		return fmt.Errorf("failed to list the nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		before := client.MergeFrom(node.DeepCopy())
		if !change(node) {
			continue
		}
		if err := w.Seed.Client.Patch(ctx, node, before); err != nil {
			return fmt.Errorf("failed to patch node %s: %w", node.Name, err)
		}
	}
	return nil
}

// misleadRecord lets the wildcard record of the seed lead elsewhere. No extension acts on that, because the gardenlet
// has not asked for it, so that what the record says is not published.
func misleadRecord(ctx context.Context, w *World) error {
	return onRecord(ctx, w, func(record *extensionsv1alpha1.DNSRecord) bool {
		if _, misled := record.Annotations[marked]; misled {
			return false
		}
		metav1.SetMetaDataAnnotation(&record.ObjectMeta, marked, strings.Join(record.Spec.Values, ","))
		record.Spec.Values = []string{elsewhere}
		return true
	})
}

func leadRecordBack(ctx context.Context, w *World) error {
	return onRecord(ctx, w, func(record *extensionsv1alpha1.DNSRecord) bool {
		former, misled := record.Annotations[marked]
		if !misled {
			return false
		}
		delete(record.Annotations, marked)
		record.Spec.Values = strings.Split(former, ",")
		return true
	})
}

func onRecord(ctx context.Context, w *World, change func(*extensionsv1alpha1.DNSRecord) bool) error {
	record := &extensionsv1alpha1.DNSRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "seed-ingress"}}
	key := client.ObjectKeyFromObject(record)
	if err := w.Seed.Client.Get(ctx, key, record); err != nil {
		return fmt.Errorf("failed to get DNSRecord %s: %w", key, err)
	}
	before := client.MergeFrom(record.DeepCopy())
	if !change(record) {
		return nil
	}
	if err := w.Seed.Client.Patch(ctx, record, before); err != nil {
		return fmt.Errorf("failed to patch DNSRecord %s: %w", key, err)
	}
	return w.observeRecord(ctx, record)
}

// observeRecord has the record look as after its extension has carried out what it says.
func (w *World) observeRecord(ctx context.Context, record *extensionsv1alpha1.DNSRecord) error {
	before := client.MergeFrom(record.DeepCopy())
	record.Status.ObservedGeneration = record.Generation
	if err := w.Seed.Client.Status().Patch(ctx, record, before); err != nil {
		return fmt.Errorf("failed to patch the status of DNSRecord %s: %w", client.ObjectKeyFromObject(record), err)
	}
	return nil
}
