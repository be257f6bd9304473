// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

// Every request of the load sets MaxRetries(0): client-go sends a request again when the server asks for it
// (Retry-After), and a read when its connection breaks, and its caller never hears of it. What fails at the first try
// has failed; what client-go would have made of it is counted apart (attempt.go).

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// probeLabel marks everything that the probe creates; its value names the run.
	probeLabel = "livecpm.gardener.cloud/probe"

	dataSequence = "sequence"
	dataSentAt   = "sentAt"

	// markEvery is after how many writes of an object a further object is created and then left alone: later writes
	// cannot cover up its loss.
	markEvery = 25
)

// object is a ConfigMap that is written in turn, by one request at a time.
type object struct {
	name   string
	client rest.Interface

	sequence int64
	revision string
	// inDoubt is set while it is unknown whether the last write was carried out.
	inDoubt bool
	// marked is the sequence number at which the last mark was created.
	marked int64
}

func (p *Probe) newConfigMap(name string, sequence int64) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: p.namespace,
			Labels:    map[string]string{probeLabel: p.run},
		},
		Data: map[string]string{
			dataSequence: strconv.FormatInt(sequence, 10),
			dataSentAt:   strconv.FormatInt(time.Now().UnixNano(), 10),
		},
	}
}

// write carries out the next write of the object, or finds out what became of the one before.
func (p *Probe) write(ctx context.Context, o *object) {
	switch {
	case o.inDoubt:
		p.settle(ctx, o, o.client)
	case o.sequence > 0 && o.sequence%markEvery == 0 && o.marked != o.sequence:
		o.marked = o.sequence
		name := fmt.Sprintf("%s-mark-%d", o.name, o.sequence)
		if p.timedWrite(ctx, "create mark "+name, func(ctx context.Context) error {
			return o.client.Post().MaxRetries(0).Namespace(p.namespace).Resource("configmaps").
				Body(p.newConfigMap(name, 1)).Do(ctx).Error()
		}) {
			p.ledger.acknowledge(name, 1)
		}
	default:
		p.writeNext(ctx, o)
	}
}

func (p *Probe) writeNext(ctx context.Context, o *object) {
	var (
		next   = p.newConfigMap(o.name, o.sequence+1)
		result = &corev1.ConfigMap{}
		verb   = "update "
	)
	if o.sequence == 0 {
		verb = "create "
	}

	ok := p.timedWrite(ctx, verb+o.name, func(ctx context.Context) error {
		if o.sequence == 0 {
			return o.client.Post().MaxRetries(0).Namespace(p.namespace).Resource("configmaps").
				Body(next).Do(ctx).Into(result)
		}
		// The resource version makes each write build on the one acknowledged before: were that one lost, the API
		// server would report a conflict.
		next.ResourceVersion = o.revision
		return o.client.Put().MaxRetries(0).Namespace(p.namespace).Resource("configmaps").Name(o.name).
			Body(next).Do(ctx).Into(result)
	})
	if !ok {
		o.inDoubt = true
		return
	}
	o.sequence++
	o.revision = result.ResourceVersion
	p.ledger.acknowledge(o.name, o.sequence)
}

// settle reads the object to learn whether a failed write was carried out after all.
func (p *Probe) settle(ctx context.Context, o *object, client rest.Interface) {
	found, revision := int64(0), ""
	current, err := p.get(ctx, client, o.name)
	switch {
	case apierrors.IsNotFound(err):
		// A good answer if the object was just to be created, and a lost write otherwise, which the ledger tells.
	case err != nil:
		p.failed(kindRead, err)
		return
	default:
		found, revision = sequenceOf(current), current.ResourceVersion
	}
	p.ledger.observe(o.name, found)
	o.sequence, o.revision, o.inDoubt = found, revision, false
}

// read gets an object and checks that it is at least as new as what was acknowledged before the request was sent.
func (p *Probe) read(ctx context.Context, client rest.Interface, name string) {
	expected := p.ledger.last(name)
	current, err := p.get(ctx, client, name)
	if err != nil {
		p.failed(kindRead, err)
		return
	}
	if found := sequenceOf(current); found < expected {
		p.counters.stale.Add(1)
		p.failed(kindRead,
			fmt.Errorf("read of %s gave sequence %d after %d was acknowledged", name, found, expected))
	}
}

func (p *Probe) get(ctx context.Context, client rest.Interface, name string) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.RequestTimeout)
	defer cancel()

	p.counters.reads.Add(1)
	current := &corev1.ConfigMap{}
	if err := try(ctx, func(ctx context.Context) error {
		return client.Get().MaxRetries(0).Namespace(p.namespace).Resource("configmaps").Name(name).Do(ctx).Into(current)
	}); err != nil {
		return nil, fmt.Errorf("failed to get %s: %w", name, err)
	}
	return current, nil
}

// timedWrite sends a write. Its latency begins when it was due, not when the probe got round to sending it.
func (p *Probe) timedWrite(ctx context.Context, what string, send func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, p.config.RequestTimeout)
	defer cancel()

	p.counters.writes.Add(1)
	due := dueTime(ctx, time.Now())
	if err := try(ctx, send); err != nil {
		p.failed(kindWrite, fmt.Errorf("failed to %s: %w", what, err))
		return false
	}
	now := time.Now()
	p.timeline.acknowledged(now, now.Sub(due))
	return true
}

// createEvent creates an Event object, which the API server keeps in etcd-events.
func (p *Probe) createEvent(ctx context.Context, client rest.Interface, number int64) {
	name := fmt.Sprintf("event-%d", number)
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.namespace, Labels: map[string]string{probeLabel: p.run}},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1",
			Kind:       "Namespace",
			Namespace:  p.namespace,
			Name:       p.namespace,
		},
		Reason:         "Probe",
		Message:        strconv.FormatInt(number, 10),
		Type:           corev1.EventTypeNormal,
		FirstTimestamp: now,
		LastTimestamp:  now,
		Count:          1,
	}
	if p.timedWrite(ctx, "create "+name, func(ctx context.Context) error {
		return client.Post().MaxRetries(0).Namespace(p.namespace).Resource("events").Body(event).Do(ctx).Error()
	}) {
		p.ledger.acknowledgeEvent(name)
	}
}
