// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"sync"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/machine"
)

// Usage is what the whole machine used during a phase, the load and the demo itself included.
type Usage = recording.Usage

// machineMeter measures CPU and memory of the machine by phase.
type machineMeter struct {
	mu      sync.Mutex
	phase   string
	begin   time.Time
	busy    time.Duration
	memory  int64
	results map[string]Usage
}

func newMachineMeter() *machineMeter { return &machineMeter{results: map[string]Usage{}} }

// enter ends the present phase and begins another one; an empty name begins none.
func (m *machineMeter) enter(phase string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	busy, err := machine.BusyTime()
	if err != nil {
		return
	}
	if elapsed := now.Sub(m.begin); m.phase != "" && elapsed > 0 {
		m.results[m.phase] = Usage{
			CPUCores:        float64(int64(100*(busy-m.busy).Seconds()/elapsed.Seconds())) / 100,
			MaxMemoryMiB:    m.memory >> 20,
			DurationSeconds: driver.Seconds(elapsed),
		}
	}
	m.phase, m.begin, m.busy, m.memory = phase, now, busy, 0
}

// sample looks at the memory.
func (m *machineMeter) sample() {
	used, err := machine.UsedMemory()
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memory = max(m.memory, used)
}

func (m *machineMeter) report() map[string]Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results
}
