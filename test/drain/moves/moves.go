// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package moves looks at the budget of a drain from outside.
package moves

import (
	"context"
	"maps"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Total is the key of Most for all seeds together.
const Total = "total"

// OutOf and Into are the keys of Most for a seed.
func OutOf(seed string) string { return "out of " + seed }

// Into is the key for moves to the seed.
func Into(seed string) string { return "into " + seed }

// Moves counts the shoots that are on their way, from every change of every Shoot and with nobody's help. A shoot is on
// its way while its seed names differ and its migration is not aborted.
type Moves struct {
	lock sync.Mutex
	now  map[string][2]string
	// most is how many were on their way at the same time, starts how often each shoot was seen to begin.
	most, starts map[string]int
}

// New returns Moves that have seen nothing.
func New() *Moves {
	return &Moves{now: map[string][2]string{}, most: map[string]int{}, starts: map[string]int{}}
}

// Watch shows every change of a Shoot until the context ends. What is seen goes to all functions.
func Watch(ctx context.Context, garden client.WithWatch, see ...func(watch.EventType, *gardencorev1beta1.Shoot)) {
	for ctx.Err() == nil {
		watcher, err := garden.Watch(ctx, &gardencorev1beta1.ShootList{})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		release := context.AfterFunc(ctx, watcher.Stop)
		for event := range watcher.ResultChan() {
			if shoot, ok := event.Object.(*gardencorev1beta1.Shoot); ok {
				for _, f := range see {
					f(event.Type, shoot)
				}
			}
		}
		release()
		watcher.Stop()
	}
}

// See takes account of what the Shoot is like now.
func (m *Moves) See(event watch.EventType, shoot *gardencorev1beta1.Shoot) {
	m.lock.Lock()
	defer m.lock.Unlock()
	source, destination, moving := steps.Seeds(shoot)
	if event == watch.Deleted || !moving || steps.Aborted(steps.Conditions(shoot)) {
		delete(m.now, shoot.Name)
		return
	}
	if _, known := m.now[shoot.Name]; !known {
		m.starts[shoot.Name]++
	}
	m.now[shoot.Name] = [2]string{source, destination}
	count := map[string]int{}
	for _, way := range m.now {
		count[Total]++
		count[OutOf(way[0])]++
		count[Into(way[1])]++
	}
	for what, n := range count {
		m.most[what] = max(m.most[what], n)
	}
}

// Now returns the destinations of the shoots that are on their way.
func (m *Moves) Now() map[string]string {
	m.lock.Lock()
	defer m.lock.Unlock()
	out := map[string]string{}
	for name, way := range m.now {
		out[name] = way[1]
	}
	return out
}

// Most returns how many were on their way at the same time: in all, out of each seed, and into each.
func (m *Moves) Most() map[string]int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return maps.Clone(m.most)
}

// Starts returns how often each shoot has begun a move.
func (m *Moves) Starts() map[string]int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return maps.Clone(m.starts)
}
