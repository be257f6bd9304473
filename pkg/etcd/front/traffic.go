// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/etcd/front/config"
)

// Why a request goes no further. etcd's clients resume streams that end with Unavailable.
var (
	// errNoMember has the one message, word for word, that etcd's clients take as proof that a request has not been
	// sent: only then they repeat a write. It is for requests of which no member has got a message.
	errNoMember = status.Error(codes.Unavailable, "there is no connection available")
	errDrained  = status.Error(codes.Unavailable, "the etcd member is about to stop, open the stream again")
	errClosing  = status.Error(codes.Unavailable, "the front of etcd is about to stop, open the stream again")
)

// kind tells requests that end by themselves from those that do not.
type kind string

const (
	unary  kind = "unary"
	stream kind = "stream"
)

// call is a request of a client.
type call struct {
	kind kind
	// end ends a stream with an error.
	end context.CancelCauseFunc

	// member is where the call is under way. The traffic sets it.
	member *member
	// avoid is a member that the call could not be sent to.
	avoid *member
}

// hold keeps unary calls back.
type hold struct {
	id    string
	since time.Time
	// over is closed when the hold has ended.
	over chan struct{}
	// queue are the calls that are kept back, in the order in which they came.
	queue []chan struct{}
}

// drain keeps calls away from a member.
type drain struct {
	// over is closed when the drain has ended, or another one has taken its place.
	over chan struct{}
}

// traffic decides when and where each call goes, and knows which are under way. Both belong together: a call that was
// let through counts at once, so that neither a hold nor a drain overlooks it.
type traffic struct {
	log     logr.Logger
	clock   clock.Clock
	limits  config.Limits
	metrics *metrics
	members []*member

	mu sync.Mutex
	// next is where the search for a member begins.
	next  int
	unary int
	hold  *hold
	// closing says that streams get no further.
	closing bool
	// changed is closed when something changes that somebody may wait for; nil if nobody waits.
	changed chan struct{}
}

// after acts when the time is over, unless what is to be ended then has ended before.
func (t *traffic) after(atMost time.Duration, over <-chan struct{}, act func()) {
	timer := t.clock.NewTimer(atMost)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			act()
		case <-over:
		}
	}()
}

// change returns what is closed at the next change. The traffic must be locked.
func (t *traffic) change() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// tell wakes up whoever waits for a change. The traffic must be locked.
func (t *traffic) tell() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// enter waits until the call may be sent and chooses the member, where it counts as under way until leave.
func (t *traffic) enter(ctx context.Context, c *call) error {
	var waiting clock.Timer
	for {
		turn, err := t.try(c)
		switch {
		case err != nil || c.member != nil:
			return err
		case turn.held:
			if err := t.wait(ctx, turn.come); err != nil {
				return err
			}
			continue
		case waiting == nil: // the time in which a call was held before is no reason to refuse it
			waiting = t.clock.NewTimer(t.limits.MemberWait.Duration)
			defer waiting.Stop()
		}
		select {
		case <-turn.come:
		case <-ctx.Done():
			return over(ctx)
		case <-waiting.C():
			t.metrics.refused.Inc()
			return errNoMember
		}
	}
}

// wait keeps a call back until its turn comes.
func (t *traffic) wait(ctx context.Context, come <-chan struct{}) error {
	began := t.clock.Now()
	t.metrics.held.Inc()
	defer func() {
		t.metrics.held.Dec()
		t.metrics.heldSeconds.Observe(t.clock.Since(began).Seconds())
	}()
	select {
	case <-come:
		return nil
	case <-ctx.Done():
		return over(ctx)
	}
}

// over returns what to tell the client whose context has ended.
func over(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == errDrained || cause == errClosing {
		return cause
	}
	return status.FromContextError(ctx.Err()).Err()
}

// turn is when a call may try again.
type turn struct {
	come <-chan struct{}
	held bool
}

// try lets the call through, or says when to try again.
func (t *traffic) try(c *call) (turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.kind == stream && t.closing:
		return turn{}, errClosing
	case c.kind == unary && t.hold != nil:
		come := make(chan struct{})
		t.hold.queue = append(t.hold.queue, come)
		return turn{come: come, held: true}, nil
	}
	m := t.choose(c.avoid)
	if m == nil {
		return turn{come: t.change()}, nil
	}
	c.member = m
	if c.kind == unary {
		t.unary++
		m.unary++
	} else {
		m.streams[c] = struct{}{}
	}
	t.metrics.requests.WithLabelValues(label(m.Ordinal), string(c.kind)).Inc()
	t.metrics.underWay.WithLabelValues(label(m.Ordinal), string(c.kind)).Inc()
	return turn{}, nil
}

// choose returns the members that may be used one after the other, nil if there is none. The one to avoid is returned
// only if it is the only one. The traffic must be locked.
func (t *traffic) choose(avoid *member) *member {
	var last *member
	for range t.members {
		m := t.members[t.next]
		t.next = (t.next + 1) % len(t.members)
		if !m.usable() {
			continue
		}
		if m != avoid {
			return m
		}
		last = m
	}
	return last
}

// usable says whether calls may be led to the member. The traffic must be locked.
func (m *member) usable() bool { return m.eligible && m.drain == nil && m.connected() }

// leave says that the call is not under way any more. It may be called again.
func (t *traffic) leave(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := c.member
	if m == nil {
		return
	}
	c.member = nil
	if c.kind == unary {
		t.unary--
		m.unary--
	} else {
		delete(m.streams, c)
	}
	t.metrics.underWay.WithLabelValues(label(m.Ordinal), string(c.kind)).Dec()
	t.tell()
}

// close ends all streams and lets no new ones through.
func (t *traffic) close() {
	t.mu.Lock()
	t.closing = true
	var calls []*call
	for _, m := range t.members {
		calls = append(calls, t.streamsOf(m)...)
	}
	t.tell()
	t.mu.Unlock()
	for _, c := range calls {
		c.end(errClosing)
	}
}

// streamsOf returns the streams at the member and counts them as ended. The traffic must be locked.
func (t *traffic) streamsOf(m *member) []*call {
	calls := make([]*call, 0, len(m.streams))
	for c := range m.streams {
		calls = append(calls, c)
	}
	t.metrics.ended.WithLabelValues(label(m.Ordinal)).Add(float64(len(calls)))
	return calls
}

// ready says whether a call would be let through to some member.
func (t *traffic) ready() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.others(nil) > 0
}

// others returns how many members but the given one may be used. The traffic must be locked.
func (t *traffic) others(but *member) (n int) {
	for _, m := range t.members {
		if m != but && m.usable() {
			n++
		}
	}
	return n
}

// pick returns the members that may be used, each call beginning with another one.
func (t *traffic) pick() []*member {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*member
	for i := range t.members {
		if m := t.members[(t.next+i)%len(t.members)]; m.usable() {
			out = append(out, m)
		}
	}
	t.next = (t.next + 1) % len(t.members)
	return out
}

// connection returns the number of the connection to the member, for answered.
func (t *traffic) connection(m *member) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return m.connection
}

// broken says that there is no connection to the member.
func (t *traffic) broken(m *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.connection++
	m.bad = 0
	t.judge(m, status.Error(codes.Unavailable, "the connection is broken"))
}

// answered says how the member has answered the question for its status over the connection.
func (t *traffic) answered(m *member, connection int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case connection != m.connection:
		return
	case err == nil:
		m.bad = 0
	default:
		if m.bad++; m.bad < misses {
			return
		}
	}
	t.judge(m, err)
}

// judge makes the member eligible, or not if there is a reason. The traffic must be locked.
func (t *traffic) judge(m *member, reason error) {
	eligible := reason == nil
	t.metrics.eligible.WithLabelValues(label(m.Ordinal)).Set(number[eligible])
	if m.eligible == eligible {
		return
	}
	m.eligible = eligible
	t.tell()
	if eligible {
		m.log.Info("Member is eligible")
	} else {
		m.log.Info("Member is not eligible any more", "reason", reason.Error())
	}
}
