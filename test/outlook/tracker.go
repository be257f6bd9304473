// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Tracker follows the parts of one run and estimates how long they still take. It may be used by several goroutines.
type Tracker struct {
	now func() time.Time

	mu    sync.Mutex
	begin time.Time
	parts []*tracked
	index map[string]*tracked
}

type tracked struct {
	Part
	expected       time.Duration
	began, ended   time.Time
	started, ready bool
	done, total    int
}

// NewTracker returns a tracker of the parts, with what Expected says of each. The run began at the given time.
func NewTracker(now func() time.Time, begin time.Time, parts []Part, expected func(Part) time.Duration) *Tracker {
	t := &Tracker{now: now, begin: begin, index: map[string]*tracked{}}
	for _, part := range parts {
		p := &tracked{Part: part, expected: expected(part)}
		t.parts, t.index[part.Name] = append(t.parts, p), p
	}
	return t
}

// Begin says that a part has begun. Parts that the tracker does not have are passed over, here and below.
func (t *Tracker) Begin(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.index[name]; p != nil && !p.started {
		p.began, p.started = t.now(), true
	}
}

// Count says how much of a part is done.
func (t *Tracker) Count(name string, done, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.index[name]; p != nil {
		p.done, p.total = done, total
	}
}

// End says that a part is finished.
func (t *Tracker) End(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.index[name]; p != nil {
		p.ended, p.started, p.ready = t.now(), true, true
		if p.began.IsZero() {
			p.began = p.ended
		}
	}
}

// Elapsed is the time since the run began.
func (t *Tracker) Elapsed() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now().Sub(t.begin)
}

// Left estimates how long the run still takes: the longest way through the parts that are not finished.
func (t *Tracker) Left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, left := t.schedule()
	return left
}

// Share returns how much of the run is done, from 0 to 1.
func (t *Tracker) Share() float64 {
	elapsed, left := t.Elapsed(), t.Left()
	if elapsed+left <= 0 {
		return 0
	}
	return float64(elapsed) / float64(elapsed+left)
}

// schedule returns when each part will be finished, counted from now, and when the last one is.
func (t *Tracker) schedule() (map[string]time.Duration, time.Duration) {
	finish := map[string]time.Duration{}
	var last time.Duration
	slowness := t.slowness()
	for _, p := range t.parts {
		var ready time.Duration
		for _, name := range p.Needs {
			ready = max(ready, finish[name])
		}
		finish[p.Name] = ready + t.remaining(p, slowness)
		last = max(last, finish[p.Name])
	}
	return finish, last
}

// slowness compares what has been compiled with what was expected of it: what remains will not be faster.
func (t *Tracker) slowness() float64 {
	// Whatever is small says little.
	const enough = 20 * time.Second
	var took, expected time.Duration
	for _, p := range t.parts {
		if p.Kind == Compile && p.ready && p.expected > 0 {
			took, expected = took+p.ended.Sub(p.began), expected+p.expected
		}
	}
	if expected < enough {
		return 1
	}
	return max(0.3, float64(took)/float64(expected))
}

func (t *Tracker) remaining(p *tracked, slowness float64) time.Duration {
	if p.ready {
		return 0
	}
	expected := p.expected
	if p.Kind == Compile {
		expected = time.Duration(float64(expected) * slowness)
	}
	if !p.started {
		return expected
	}
	elapsed := t.now().Sub(p.began)
	if p.total > 0 && p.done > 0 {
		// The more is done, the more what it took counts, and the less what was expected.
		share := min(1, float64(p.done)/float64(p.total))
		expected = time.Duration((1-share)*float64(expected) + share*float64(elapsed)/share)
	}
	// A part that takes longer than expected will still take a tenth of what it took.
	return max(expected-elapsed, min(elapsed/10, expected))
}

// Running returns which parts run, with what is known of how far it is, in the order of the parts.
func (t *Tracker) Running() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var titles []string
	for _, p := range t.parts {
		if !p.started || p.ready {
			continue
		}
		if p.total > 0 {
			titles = append(titles, fmt.Sprintf("%s (%d of %d packages)", p.Title, min(p.done, p.total), p.total))
		} else {
			titles = append(titles, p.Title)
		}
	}
	return titles
}

// StageOutlook says how long a stage takes and when it is over.
type StageOutlook struct {
	Stage Stage
	// Takes is from the beginning of its first part to the end of its last one, without waiting for parts of other
	// stages.
	Takes time.Duration
	// DoneAfter is counted from now.
	DoneAfter time.Duration
}

// Stages returns what is to be expected of each stage that has parts.
func (t *Tracker) Stages() []StageOutlook {
	t.mu.Lock()
	defer t.mu.Unlock()
	finish, _ := t.schedule()
	var stages []StageOutlook
	for _, stage := range Stages() {
		result := StageOutlook{Stage: stage}
		found := false
		within := map[string]time.Duration{}
		for _, p := range t.parts {
			if p.Stage != stage {
				continue
			}
			found = true
			var ready time.Duration
			for _, name := range p.Needs {
				ready = max(ready, within[name])
			}
			within[p.Name] = ready + t.remaining(p, t.slowness())
			result.Takes = max(result.Takes, within[p.Name])
			result.DoneAfter = max(result.DoneAfter, finish[p.Name])
		}
		if found {
			stages = append(stages, result)
		}
	}
	return stages
}

// Until returns those of the parts that the named ones need, and these themselves.
func Until(parts []Part, names ...string) []Part {
	wanted := slices.Clone(names)
	var found []Part
	for _, part := range slices.Backward(parts) {
		if slices.Contains(wanted, part.Name) {
			wanted = append(wanted, part.Needs...)
			found = append(found, part)
		}
	}
	slices.Reverse(found)
	return found
}
