// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
)

// stored is what is there in the end of what the load has written.
type stored struct {
	configMaps, samples, leases map[string]int64
	events                      map[string]struct{}
	// missingPages is how many of the objects are missing that lists go through, and electionKept tells whether the
	// Lease of the election is as new as what was acknowledged.
	missingPages int64
	electionKept bool
}

// verify reads everything back. Here, unlike in the load, looking again is right: the question is what is stored.
func (p *Probe) verify(ctx context.Context) (lostWrites, lostEvents int64, err error) {
	const attempts = 10

	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return 0, 0, fmt.Errorf("failed to verify acknowledged writes: %w", err)
			case <-time.After(time.Second):
			}
		}
		var found *stored
		if found, err = p.look(ctx); err != nil {
			continue
		}
		lostWrites, lostEvents = p.ledger.verify(found.configMaps, found.events)
		lostSamples, _ := p.customs.verify(found.samples, nil)
		lostLeases, _ := p.leases.verify(found.leases, nil)
		lostWrites += lostSamples + lostLeases + found.missingPages
		if !found.electionKept {
			lostWrites++
		}
		return lostWrites, lostEvents, nil
	}
	return 0, 0, fmt.Errorf("failed to verify acknowledged writes: %w", err)
}

// lookTimeout bounds one look at everything.
const lookTimeout = time.Minute

// look reads everything once.
func (p *Probe) look(ctx context.Context) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var (
		out     = &stored{}
		written = metav1.ListOptions{LabelSelector: probeLabel}
	)
	configMaps, err := p.admin.core.ConfigMaps(p.namespace).List(ctx, written)
	if err != nil {
		return nil, fmt.Errorf("failed to list ConfigMaps: %w", err)
	}
	events, err := p.admin.core.Events(p.namespace).List(ctx, written)
	if err != nil {
		return nil, fmt.Errorf("failed to list Events: %w", err)
	}
	samples, err := p.admin.dynamic.Resource(p.samples()).Namespace(p.namespace).List(ctx, written)
	if err != nil {
		return nil, fmt.Errorf("failed to list %s: %w", p.definition(), err)
	}
	leases, err := p.admin.leases.Leases(p.namespace).List(ctx, written)
	if err != nil {
		return nil, fmt.Errorf("failed to list Leases: %w", err)
	}
	if out.missingPages, err = p.missingPages(ctx); err != nil {
		return nil, err
	}
	if out.electionKept, err = p.electionKept(ctx); err != nil {
		return nil, err
	}
	out.configMaps = sequences(configMaps.Items, func(c *corev1.ConfigMap) (string, int64) {
		return c.Name, sequenceOf(c)
	})
	out.samples = sequences(samples.Items, func(s *unstructured.Unstructured) (string, int64) {
		return s.GetName(), sampleSequence(s)
	})
	out.leases = sequences(leases.Items, func(l *coordinationv1.Lease) (string, int64) {
		return l.Name, transitionsOf(l)
	})
	out.events = map[string]struct{}{}
	for i := range events.Items {
		out.events[events.Items[i].Name] = struct{}{}
	}
	return out, nil
}

// sequences returns the numbers of the last writes by the objects' names.
func sequences[T any](items []T, of func(*T) (string, int64)) map[string]int64 {
	out := make(map[string]int64, len(items))
	for i := range items {
		name, sequence := of(&items[i])
		out[name] = sequence
	}
	return out
}

// goneInterval is the time between two looks at whether what is deleted is gone.
const goneInterval = 250 * time.Millisecond

// cleanup removes the namespace and then the probe's own resource, of which nothing is left then.
func (p *Probe) cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.CleanupTimeout)
	defer cancel()
	return errors.Join(p.deleteNamespace(ctx), p.deleteDefinition(ctx))
}

func (p *Probe) deleteNamespace(ctx context.Context) error {
	var last error
	if err := wait.PollUntilContextCancel(ctx, goneInterval, true, func(ctx context.Context) (bool, error) {
		err := p.control.Delete().Resource("namespaces").Name(p.namespace).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return false, nil
	}); err != nil {
		return fmt.Errorf("failed to delete namespace %s: %w", p.namespace, errors.Join(err, last))
	}
	return nil
}
