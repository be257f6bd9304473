// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// bitset holds the sequence numbers of one object, which begin at 1 and have no large holes.
type bitset struct {
	words []uint64
}

func (b *bitset) add(n int64) {
	word := int(n / 64)
	if word >= len(b.words) {
		b.words = append(b.words, make([]uint64, word+1-len(b.words))...)
	}
	b.words[word] |= 1 << (n % 64)
}

func (b *bitset) has(n int64) bool {
	word := int(n / 64)
	return word < len(b.words) && b.words[word]&(1<<(n%64)) != 0
}

func (b *bitset) each(f func(n int64)) {
	for word, bits := range b.words {
		for bit := range int64(64) {
			if bits&(1<<bit) != 0 {
				f(int64(word)*64 + bit)
			}
		}
	}
}

// objectLedger is what was acknowledged about one object.
type objectLedger struct {
	acknowledged bitset
	last         int64
	// gone is set when the object was deleted. Its deletion is the write after its last one.
	gone bool
}

// ledger remembers every write that the API server acknowledged.
type ledger struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	objects map[string]*objectLedger
	events  map[string]struct{}
	// lost holds acknowledged writes that were found missing while the load ran, as "<object>/<sequence>".
	lost map[string]struct{}
	// order holds the writes in the order of their acknowledgement.
	order []acknowledgedWrite
	// begun is closed with the first of them: from then on there is something to read.
	begun chan struct{}
}

// acknowledgedWrite is a write that the API server has acknowledged.
type acknowledgedWrite struct {
	object   string
	sequence int64
	at       time.Time
}

func newLedger(c clock.PassiveClock) *ledger {
	return &ledger{clock: c, objects: map[string]*objectLedger{}, events: map[string]struct{}{},
		lost: map[string]struct{}{}, begun: make(chan struct{})}
}

// acknowledge records that the object was written with the given sequence number.
func (l *ledger) acknowledge(object string, sequence int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[object]
	if o == nil {
		o = &objectLedger{}
		l.objects[object] = o
	}
	o.acknowledged.add(sequence)
	o.last = max(o.last, sequence)
	if len(l.order) == 0 {
		close(l.begun)
	}
	l.order = append(l.order, acknowledgedWrite{object: object, sequence: sequence, at: l.clock.Now()})
}

// written returns how many writes have been acknowledged.
func (l *ledger) written() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// unseen returns the position of the first write that is not among the seen ones, beginning with the given position,
// and the write itself if there is one.
func (l *ledger) unseen(from int, seen map[string]*bitset) (int, *acknowledgedWrite) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; from < len(l.order); from++ {
		write := l.order[from]
		if s := seen[write.object]; s == nil || !s.has(write.sequence) {
			return from, &write
		}
	}
	return from, nil
}

// gone records that an object that was written is deleted, whether that was acknowledged or not.
func (l *ledger) gone(object string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.objects[object]; o != nil {
		o.gone = true
	}
}

func (l *ledger) acknowledgeEvent(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events[name] = struct{}{}
}

// last is the highest acknowledged sequence number of the object, 0 if there is none.
func (l *ledger) last(object string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.objects[object]; o != nil {
		return o.last
	}
	return 0
}

// observe compares what the API server holds now with what it acknowledged.
func (l *ledger) observe(object string, sequence int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[object]
	if o == nil {
		return
	}
	o.acknowledged.each(func(n int64) {
		if n > sequence {
			l.lost[fmt.Sprintf("%s/%d", object, n)] = struct{}{}
		}
	})
}

// observeFinally compares what the API server holds in the end with what it acknowledged.
func (l *ledger) observeFinally(object string, objects map[string]int64) {
	sequence, present := objects[object]
	l.mu.Lock()
	o := l.objects[object]
	if o.gone {
		if present {
			l.lost[fmt.Sprintf("%s/%d", object, o.last)] = struct{}{}
		}
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.observe(object, sequence)
}

// verify takes the final state and returns how many acknowledged writes and events are lost.
func (l *ledger) verify(objects map[string]int64, events map[string]struct{}) (lostWrites, lostEvents int64) {
	l.mu.Lock()
	names := make([]string, 0, len(l.objects))
	for name := range l.objects {
		names = append(names, name)
	}
	l.mu.Unlock()
	for _, name := range names {
		l.observeFinally(name, objects)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.events {
		if _, ok := events[name]; !ok {
			lostEvents++
		}
	}
	return int64(len(l.lost)), lostEvents
}

// maxExamples is how many of what is missing are named.
const maxExamples = 5

// missing counts the acknowledged writes that are not among the seen ones.
func (l *ledger) missing(seen map[string]*bitset) (missing int64, examples []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for object, o := range l.objects {
		s := seen[object]
		o.acknowledged.each(func(n int64) {
			if s == nil || !s.has(n) {
				missing++
				if len(examples) < maxExamples {
					examples = append(examples, fmt.Sprintf("%s/%d", object, n))
				}
			}
		})
	}
	return missing, examples
}

// behind counts the objects of which less is held than was acknowledged, or more where they were deleted.
func (l *ledger) behind(held map[string]int64) (count int64, examples []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for object, o := range l.objects {
		sequence, present := held[object]
		if o.gone && !present || !o.gone && sequence >= o.last {
			continue
		}
		count++
		if len(examples) < maxExamples {
			examples = append(examples, fmt.Sprintf("%s/%d", object, o.last))
		}
	}
	return count, examples
}

// timeline holds when writes were acknowledged and how long each took.
type timeline struct {
	mu        sync.Mutex
	phase     Phase
	begin     time.Time
	marks     map[Phase]time.Time
	acks      []acknowledgement
	failures  []time.Time
	latencies map[Phase][]time.Duration
}

// acknowledgement is one acknowledged write.
type acknowledgement struct {
	at      time.Time
	latency time.Duration
}

func newTimeline(now time.Time) *timeline {
	return &timeline{
		phase:     PhaseBefore,
		begin:     now,
		marks:     map[Phase]time.Time{PhaseBefore: now},
		latencies: map[Phase][]time.Duration{},
	}
}

func (t *timeline) mark(phase Phase, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = phase
	t.marks[phase] = now
}

// current returns the phase that the run is in.
func (t *timeline) current() Phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

func (t *timeline) acknowledged(now time.Time, latency time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acks = append(t.acks, acknowledgement{at: now, latency: latency})
	t.latencies[t.phase] = append(t.latencies[t.phase], latency)
}

// failed records a request, of whatever kind, that failed.
func (t *timeline) failed(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, now)
}

// gaps returns the longest time without an acknowledged write before the trigger and from the trigger to the end.
// A gap belongs to the part in which it ends.
func (t *timeline) gaps(end time.Time) (baseline, rest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()

	acks := make([]time.Time, 0, len(t.acks)+1)
	for _, ack := range t.acks {
		acks = append(acks, ack.at)
	}
	slices.SortFunc(acks, time.Time.Compare)
	trigger, triggered := t.marks[PhaseDuring]
	previous := t.begin
	for _, now := range append(acks, end) {
		gap := now.Sub(previous)
		if !triggered || now.Before(trigger) {
			baseline = max(baseline, gap)
		} else {
			rest = max(rest, gap)
		}
		previous = now
	}
	return baseline, rest
}

// percentile returns the latency that the given share of the phase's writes did not exceed.
func (t *timeline) percentile(phase Phase, part float64) time.Duration {
	t.mu.Lock()
	latencies := slices.Clone(t.latencies[phase])
	t.mu.Unlock()
	if len(latencies) == 0 {
		return 0
	}
	slices.Sort(latencies)
	return share(latencies, part)
}

func (t *timeline) lastAck() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.acks) == 0 {
		return t.begin
	}
	return t.acks[len(t.acks)-1].at
}
