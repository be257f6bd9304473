// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// schedule says when requests are due, and counts how many of them were sent. What was due is computed from the start,
// the rate and the time that has passed since: neither a ticker that drops ticks nor a goroutine that wakes up late can
// make the load smaller without its being counted.
type schedule struct {
	clock clock.Clock

	mu       sync.Mutex
	accounts []*account
}

func newSchedule(c clock.Clock) *schedule { return &schedule{clock: c} }

// account counts one kind of requests of one pacer.
type account struct {
	kind  string
	begin time.Time
	// rate is how many are due per second. The first one is due one interval after the begin.
	rate int
	// sent are those that were sent, whenever that was.
	sent atomic.Int64

	mu sync.Mutex
	// end is when the load ended; zero while it runs.
	end time.Time
}

// open begins to count requests that are due from now on.
func (s *schedule) open(kind string, rate int) *account {
	a := &account{kind: kind, begin: s.clock.Now(), rate: rate}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts = append(s.accounts, a)
	return a
}

// counts returns what was due and what of it was not sent until now, by kind.
func (s *schedule) counts() map[string]recording.Scheduled {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]recording.Scheduled{}
	for _, a := range s.accounts {
		counts := out[a.kind]
		due := a.dueUntil(now)
		counts.Due += due
		counts.Unsent += max(0, due-a.sent.Load())
		out[a.kind] = counts
	}
	return out
}

// dueAt returns when the n-th request is due, beginning with 1.
func (a *account) dueAt(n int64) time.Time {
	return a.begin.Add(time.Duration(n) * time.Second / time.Duration(a.rate))
}

// dueUntil returns how many requests were due until now, or until the load ended.
func (a *account) dueUntil(now time.Time) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.end.IsZero() && a.end.Before(now) {
		now = a.end
	}
	return int64(now.Sub(a.begin)) * int64(a.rate) / int64(time.Second)
}

func (a *account) close(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = now
}

// dueRequest is a request that a schedule has made due.
type dueRequest struct {
	at      time.Time
	account *account
}

type dueKey struct{}

// dueTime returns when the request that the context belongs to was due, or the given time if no schedule asked for it.
// What a client waits begins then, not when the probe got round to sending.
func dueTime(ctx context.Context, otherwise time.Time) time.Time {
	if due, ok := ctx.Value(dueKey{}).(dueRequest); ok {
		return due.at
	}
	return otherwise
}

// notSent takes back that the request that the context belongs to was sent.
func notSent(ctx context.Context) {
	if due, ok := ctx.Value(dueKey{}).(dueRequest); ok {
		due.account.sent.Add(-1)
	}
}

// pacer takes a slot whenever a request is due and works on it. One that finds no free slot is not sent: the load is
// bounded, and the schedule tells that it became smaller. One that is noticed late is sent late, and its time counts
// from when it was due.
type pacer[T any] struct {
	// kind names the requests in the counts of the schedule.
	kind string
	// rate is how often per second.
	rate int
	// slots are what is free to be worked on.
	slots chan T
	// schedule counts.
	schedule *schedule
	// after, when set, is closed when requests become possible. None is due before.
	after <-chan struct{}
	// work works on a slot, which is free again when it returns. Its context tells when the request was due. It is not
	// cancelled when the load ends: a request in flight is given the time to end by itself.
	work func(context.Context, T)
}

// run works until the context ends, and then until all slots are free.
func (p pacer[T]) run(ctx context.Context) {
	if p.rate <= 0 {
		return
	}
	if p.after != nil {
		select {
		case <-ctx.Done():
			return
		case <-p.after:
		}
	}
	var (
		group   sync.WaitGroup
		account = p.schedule.open(p.kind, p.rate)
	)
	defer group.Wait()
	for n := int64(1); ; n++ {
		due := account.dueAt(n)
		if !p.wait(ctx, due) {
			account.close(p.schedule.clock.Now())
			return
		}
		select {
		case slot := <-p.slots:
			account.sent.Add(1)
			group.Go(func() {
				defer func() { p.slots <- slot }()
				p.work(context.WithValue(context.WithoutCancel(ctx), dueKey{}, dueRequest{at: due, account: account}),
					slot)
			})
		default:
		}
	}
}

// wait returns at the given time, or at once if it has passed. It reports whether the load still runs.
func (p pacer[T]) wait(ctx context.Context, until time.Time) bool {
	left := until.Sub(p.schedule.clock.Now())
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := p.schedule.clock.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return ctx.Err() == nil
	}
}
