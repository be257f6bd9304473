// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// steeringService is the name of the service by which a front is steered. It is on the port of etcd's clients, for
// those who have a client certificate: they may write to etcd anyway.
const steeringService = "livecpm.front.v1.Steering"

// maxID is how long the ID of a hold may be.
const maxID = 64

// steeringMessage is a message of the steering service.
type steeringMessage interface{ steering() }

// holdRequest asks to hold requests.
type holdRequest struct {
	// ID is chosen by who asks, so that he can release a hold whose answer has not reached him.
	ID     string          `json:"id"`
	AtMost metav1.Duration `json:"atMost"`
}

// releaseRequest ends a hold. One that is not in force is none to release: that is no error.
type releaseRequest struct {
	ID string `json:"id"`
}

// drainRequest asks to drain a member.
type drainRequest struct {
	Ordinal int             `json:"ordinal"`
	AtMost  metav1.Duration `json:"atMost"`
}

// restoreRequest ends a drain. A member that is not drained is none to restore: that is no error.
type restoreRequest struct {
	Ordinal int `json:"ordinal"`
}

// done is the answer to all of them.
type done struct{}

func (*holdRequest) steering()    {}
func (*releaseRequest) steering() {}
func (*drainRequest) steering()   {}
func (*restoreRequest) steering() {}
func (*done) steering()           {}

// steered is what the service acts on.
type steered interface {
	startHold(ctx context.Context, id string, atMost time.Duration) error
	release(id string)
	startDrain(ctx context.Context, ordinal int, atMost time.Duration) error
	restore(ordinal int) error
}

var steeringDesc = grpc.ServiceDesc{
	ServiceName: steeringService,
	HandlerType: (*steered)(nil),
	Methods: []grpc.MethodDesc{
		steeringMethod("Hold", func(ctx context.Context, s steered, r *holdRequest) error {
			return s.startHold(ctx, r.ID, r.AtMost.Duration)
		}),
		steeringMethod("Release", func(_ context.Context, s steered, r *releaseRequest) error {
			s.release(r.ID)
			return nil
		}),
		steeringMethod("Drain", func(ctx context.Context, s steered, r *drainRequest) error {
			return s.startDrain(ctx, r.Ordinal, r.AtMost.Duration)
		}),
		steeringMethod("Restore", func(_ context.Context, s steered, r *restoreRequest) error {
			return s.restore(r.Ordinal)
		}),
	},
}

func steeringMethod[R any](name string, act func(context.Context, steered, *R) error) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(
		server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
	) (any, error) {
		request := new(R)
		if err := decode(request); err != nil {
			return nil, status.Error(codes.InvalidArgument, "failed to read the request: "+err.Error())
		}
		if err := act(ctx, server.(steered), request); err != nil {
			return nil, err
		}
		return &done{}, nil
	}}
}

// startHold holds unary calls. It returns when none is under way any more, or with an error when some of them do not
// end in half of the time: the other half is for who asked.
func (t *traffic) startHold(ctx context.Context, id string, atMost time.Duration) error {
	if id == "" || len(id) > maxID {
		return status.Errorf(codes.InvalidArgument, "the ID of a hold must have 1 to %d characters", maxID)
	}
	if err := within(atMost, t.limits.MaxHold.Duration); err != nil {
		return err
	}
	t.mu.Lock()
	if t.hold != nil {
		t.mu.Unlock()
		return status.Error(codes.FailedPrecondition, "requests are held already, wait until that has ended")
	}
	h := &hold{id: id, since: t.clock.Now(), over: make(chan struct{})}
	t.hold = h
	t.metrics.holding.Set(1)
	t.after(atMost, h.over, func() { t.endHold(h, "the time is over") })
	t.mu.Unlock()

	timer := t.clock.NewTimer(atMost / 2)
	defer timer.Stop()
	for {
		t.mu.Lock()
		left, change := t.unary, t.change()
		if t.hold != h {
			t.mu.Unlock()
			return status.Error(codes.Aborted, "the hold was released before it was complete")
		}
		t.mu.Unlock()
		if left == 0 {
			t.log.Info("Holding requests", "hold", id, "atMost", atMost.String())
			return nil
		}
		select {
		case <-change:
			continue
		case <-timer.C():
		case <-ctx.Done():
		}
		t.endHold(h, "requests under way did not end")
		return status.Errorf(codes.DeadlineExceeded,
			"%d requests under way did not end in time, nothing is held any more", left)
	}
}

// release ends the hold with the ID if it is in force.
func (t *traffic) release(id string) {
	t.mu.Lock()
	h := t.hold
	t.mu.Unlock()
	if h != nil && h.id == id {
		t.endHold(h, "released")
	}
}

// endHold lets the calls go on in the order in which they came.
func (t *traffic) endHold(h *hold, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hold != h {
		return
	}
	t.hold = nil
	t.metrics.holding.Set(0)
	close(h.over)
	for _, come := range h.queue {
		close(come)
	}
	t.tell()
	t.log.Info("Requests go on", "hold", h.id, "reason", why, "held", len(h.queue),
		"duration", t.clock.Since(h.since).String())
}

// startDrain leads no new call to the member and ends its streams. It returns when nothing is under way there. If the
// context ends before, the member remains drained.
func (t *traffic) startDrain(ctx context.Context, ordinal int, atMost time.Duration) error {
	m, err := t.find(ordinal)
	if err != nil {
		return err
	}
	if err := within(atMost, t.limits.MaxDrain.Duration); err != nil {
		return err
	}
	t.mu.Lock()
	switch {
	case m.drain != nil: // whoever prolongs it changes nothing for the other members
		close(m.drain.over)
	case t.others(m) == 0:
		t.mu.Unlock()
		return status.Errorf(codes.FailedPrecondition,
			"no member but %d is eligible, wait until another one is or restore one", ordinal)
	}
	d := &drain{over: make(chan struct{})}
	m.drain = d
	t.after(atMost, d.over, func() { t.endDrain(m, d, "the time is over") })
	t.metrics.drained.WithLabelValues(label(ordinal)).Set(1)
	t.tell()
	streams := t.streamsOf(m)
	m.log.Info("Draining member", "atMost", atMost.String(), "unary", m.unary, "streams", len(streams))
	t.mu.Unlock()
	for _, c := range streams {
		c.end(errDrained)
	}
	return t.drained(ctx, m)
}

// drained waits until nothing is under way at the member.
func (t *traffic) drained(ctx context.Context, m *member) error {
	for {
		t.mu.Lock()
		left, ended, change := m.unary+len(m.streams), m.drain == nil, t.change()
		t.mu.Unlock()
		switch {
		case ended:
			return status.Errorf(codes.Aborted, "the drain of member %d has ended before it was complete: its time is "+
				"over, or the member was restored", m.Ordinal)
		case left == 0:
			m.log.Info("Member is drained")
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			m.log.Info("Nobody waits any more for the member to be drained", "underWay", left)
			return status.Errorf(codes.DeadlineExceeded, "%d requests are still under way at member %d", left,
				m.Ordinal)
		}
	}
}

// restore ends the drain of the member.
func (t *traffic) restore(ordinal int) error {
	m, err := t.find(ordinal)
	if err != nil {
		return err
	}
	t.mu.Lock()
	d := m.drain
	t.mu.Unlock()
	if d != nil {
		t.endDrain(m, d, "restored")
	}
	return nil
}

func (t *traffic) endDrain(m *member, d *drain, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.drain != d {
		return
	}
	close(d.over)
	m.drain = nil
	t.metrics.drained.WithLabelValues(label(m.Ordinal)).Set(0)
	t.tell()
	m.log.Info("Member is not drained any more", "reason", why)
}

func (t *traffic) find(ordinal int) (*member, error) {
	for _, m := range t.members {
		if m.Ordinal == ordinal {
			return m, nil
		}
	}
	return nil, status.Error(codes.InvalidArgument, "there is no member with the ordinal "+strconv.Itoa(ordinal))
}

func within(atMost, limit time.Duration) error {
	if atMost <= 0 || atMost > limit {
		return status.Errorf(codes.InvalidArgument, "the time must be positive and at most %s, not %s", limit, atMost)
	}
	return nil
}
