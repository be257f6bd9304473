// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package seedpods lets the pods of a fake seed be followed.
package seedpods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods are the pods of a namespace.
type Pods struct {
	seed      client.Client
	namespace string
}

// New returns the pods that the client has in the namespace. Changes are told if it is a client that watches.
func New(seed client.Client, namespace string) *Pods { return &Pods{seed: seed, namespace: namespace} }

// List implements joint.Pods.
func (p *Pods) List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("failed to parse selector %q: %w", opts.LabelSelector, err)
	}
	list := &corev1.PodList{}
	return list, p.seed.List(ctx, list, client.InNamespace(p.namespace),
		client.MatchingLabelsSelector{Selector: selector})
}

// Watch implements joint.Pods.
func (p *Pods) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if seed, ok := p.seed.(client.WithWatch); ok {
		return seed.Watch(ctx, &corev1.PodList{}, client.InNamespace(p.namespace))
	}
	return watch.NewFake(), nil
}

// IsWatchListSemanticsUnSupported tells reflectors that a list comes from List only.
func (p *Pods) IsWatchListSemanticsUnSupported() bool { return true }
