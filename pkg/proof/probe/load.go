// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

// The load is made of parts (kinds.go), each of which has slots that a pacer takes in turn. No request is sent again
// (client.go): what fails at the first try has failed, and what client-go would have made of it is counted apart
// (attempt.go).

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// sending returns the context of a request that is sent now. What client-go would log of it is counted.
func (p *Probe) sending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(klog.NewContext(ctx, logr.Discard()), p.config.RequestTimeout)
}

// timedWrite sends a write and reports whether it was acknowledged. Its latency begins when it was due, not when the
// probe got round to sending it.
func (p *Probe) timedWrite(ctx context.Context, r request, send func(context.Context) error) bool {
	ctx, cancel := p.sending(ctx)
	defer cancel()

	p.counters.writes.Add(1)
	p.kinds.sent(r)
	due := dueTime(ctx, time.Now())
	if err := try(ctx, send); err != nil {
		p.kinds.failed(r, err)
		p.failed(kindWrite, fmt.Errorf("failed to %s: %w", r, err))
		return false
	}
	now := time.Now()
	p.timeline.acknowledged(now, now.Sub(due))
	p.partOf(r).acknowledged(now, now.Sub(due))
	p.kinds.succeeded(r, p.timeline.current(), now.Sub(due))
	return true
}

// partOf returns the timeline of the writes that the request belongs to, apart from the others.
func (p *Probe) partOf(r request) *timeline {
	if r.kind == kindEvent {
		return p.events
	}
	return p.others
}

// timedRead sends a read. Whether its error is a failure is for the caller to say. Its latency begins when it was due.
func (p *Probe) timedRead(ctx context.Context, r request, send func(context.Context) error) error {
	ctx, cancel := p.sending(ctx)
	defer cancel()

	p.counters.reads.Add(1)
	p.kinds.sent(r)
	due := dueTime(ctx, time.Now())
	err := try(ctx, send)
	if err == nil {
		p.kinds.succeeded(r, p.timeline.current(), time.Since(due))
	}
	return err
}

// readFailed counts a read that was sent as failed.
func (p *Probe) readFailed(r request, err error) {
	p.kinds.failed(r, err)
	p.failed(kindRead, fmt.Errorf("failed to %s: %w", r, err))
}

// createEvent creates an Event object, which the API server keeps in etcd-events.
func (p *Probe) createEvent(ctx context.Context, c *client, number int64) {
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
	if p.timedWrite(ctx, request{verbCreate, kindEvent, name}, func(ctx context.Context) error {
		_, err := c.core.Events(p.namespace).Create(ctx, event, metav1.CreateOptions{})
		return err
	}) {
		p.ledger.acknowledgeEvent(name)
	}
}
