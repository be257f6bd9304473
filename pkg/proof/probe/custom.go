// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The probe's own resource. Its group is that of the run, so that runs at the same time do not meet.
const (
	kindSample      = "Sample"
	customResource  = "samples"
	customVersion   = "v1"
	customGroupBase = "probe.livecpm.gardener.cloud"
)

// definitions are CustomResourceDefinitions.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// samples is the probe's own resource.
func (p *Probe) samples() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "run-" + p.run + "." + customGroupBase, Version: customVersion,
		Resource: customResource}
}

// definition is the name of the definition of the probe's own resource.
func (p *Probe) definition() string { return p.samples().GroupResource().String() }

// createDefinition makes the probe's own resource known.
func (p *Probe) createDefinition(ctx context.Context) error {
	state := map[string]any{
		"type": "object",
		"properties": map[string]any{
			dataSequence: map[string]any{"type": "integer", "format": "int64"},
			dataSentAt:   map[string]any{"type": "integer", "format": "int64"},
		},
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitions.GroupVersion().String(),
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": p.definition(), "labels": map[string]any{probeLabel: p.run},
		},
		"spec": map[string]any{
			"group": p.samples().Group,
			"scope": "Namespaced",
			"names": map[string]any{
				"kind": kindSample, "listKind": kindSample + "List", "plural": customResource, "singular": "sample",
			},
			"versions": []any{map[string]any{
				"name": customVersion, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": state, "status": state},
				}},
			}},
		},
	}}
	if _, err := p.admin.dynamic.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("failed to create CustomResourceDefinition %s: %w", p.definition(), err)
	}
	return nil
}

// deleteDefinition removes the probe's own resource, and waits until it is gone.
func (p *Probe) deleteDefinition(ctx context.Context) error {
	var last error
	if err := wait.PollUntilContextCancel(ctx, goneInterval, true, func(ctx context.Context) (bool, error) {
		err := p.admin.dynamic.Resource(definitions).Delete(ctx, p.definition(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return false, nil
	}); err != nil {
		return fmt.Errorf("failed to delete CustomResourceDefinition %s: %w", p.definition(), errors.Join(err, last))
	}
	return nil
}

// customForm is that of the probe's own resource. The odd writes are of the specification, the even ones of the status.
func (p *Probe) customForm() *form {
	return &form{
		kind: kindSample, ledger: p.customs,
		verb: func(w write) string {
			switch {
			case w.revision == "":
				return verbCreate
			case w.sequence%2 == 0:
				return verbUpdateStatus
			default:
				return verbUpdate
			}
		},
		send: func(ctx context.Context, c *client, w write) (string, error) {
			samples, next := c.dynamic.Resource(p.samples()).Namespace(p.namespace), p.newSample(w)
			switch {
			case w.revision == "":
				return revisionOf(samples.Create(ctx, next, metav1.CreateOptions{}))
			case w.sequence%2 == 0:
				return revisionOf(samples.UpdateStatus(ctx, next, metav1.UpdateOptions{}))
			default:
				return revisionOf(samples.Update(ctx, next, metav1.UpdateOptions{}))
			}
		},
		read: func(ctx context.Context, c *client, name string) (int64, string, error) {
			current, err := c.dynamic.Resource(p.samples()).Namespace(p.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return 0, "", err
			}
			return sampleSequence(current), current.GetResourceVersion(), nil
		},
	}
}

// newSample returns the object with the write in it. The API server takes the specification or the status of it only,
// whichever is written.
func (p *Probe) newSample(w write) *unstructured.Unstructured {
	specification, status := w.sequence, w.sequence
	if w.sequence%2 == 0 {
		specification--
	} else {
		status--
	}
	sentAt := time.Now().UnixNano()
	sample := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": p.samples().GroupVersion().String(),
		"kind":       kindSample,
		"metadata": map[string]any{
			"name": w.name, "namespace": p.namespace, "labels": map[string]any{probeLabel: p.run},
		},
		"spec":   map[string]any{dataSequence: specification, dataSentAt: sentAt},
		"status": map[string]any{dataSequence: status, dataSentAt: sentAt},
	}}
	sample.SetResourceVersion(w.revision)
	return sample
}

// sampleSequence is the number of the last write of the object.
func sampleSequence(sample *unstructured.Unstructured) int64 {
	specification, _, _ := unstructured.NestedInt64(sample.Object, "spec", dataSequence)
	status, _, _ := unstructured.NestedInt64(sample.Object, "status", dataSequence)
	return max(specification, status)
}
