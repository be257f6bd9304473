// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// quietPeriod is the time between two log lines of one kind about connections that were turned away.
const quietPeriod = 10 * time.Second

// muffler keeps those who can make the relay turn connections away from filling its log. Metrics count all of them.
type muffler struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	kinds map[string]*muffled
}

type muffled struct {
	told  time.Time
	since int
}

func newMuffler(clk clock.PassiveClock) *muffler {
	return &muffler{clock: clk, kinds: map[string]*muffled{}}
}

// pass reports whether a line of the kind may be written now, and how many of its kind were not since the last one.
func (m *muffler) pass(kind string) (omitted int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	state, known := m.kinds[kind]
	if known && now.Sub(state.told) < quietPeriod {
		state.since++
		return 0, false
	}
	if known {
		omitted = state.since
	}
	m.kinds[kind] = &muffled{told: now}
	return omitted, true
}
