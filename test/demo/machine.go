// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Usage is what the whole machine used during a phase, the load and the demo itself included.
type Usage struct {
	CPUCores        float64 `json:"cpuCores"`
	MaxMemoryMiB    int64   `json:"maxMemoryMiB"`
	DurationSeconds float64 `json:"durationSeconds"`
}

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
	busy, err := busyTime()
	if err != nil {
		return
	}
	if elapsed := now.Sub(m.begin); m.phase != "" && elapsed > 0 {
		m.results[m.phase] = Usage{
			CPUCores:        float64(int64(100*(busy-m.busy).Seconds()/elapsed.Seconds())) / 100,
			MaxMemoryMiB:    m.memory >> 20,
			DurationSeconds: seconds(elapsed),
		}
	}
	m.phase, m.begin, m.busy, m.memory = phase, now, busy, 0
}

// sample looks at the memory.
func (m *machineMeter) sample() {
	used, err := usedMemory()
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

// busyTime is the time that all processors together have not been idle since the machine started.
func busyTime() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	var ticks int64
	for i, field := range strings.Fields(line) {
		// Fields 4 and 5 are idle and iowait; guest time (9 and 10) is part of user time.
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const tick = 10 * time.Millisecond
	return time.Duration(ticks) * tick, nil
}

func usedMemory() (int64, error) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	values := map[string]int64{}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		name, value, _ := strings.Cut(scanner.Text(), ":")
		if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64); err == nil {
			values[name] = kib << 10
		}
	}
	if values["MemTotal"] == 0 || values["MemAvailable"] == 0 {
		return 0, fmt.Errorf("failed to read memory usage")
	}
	return values["MemTotal"] - values["MemAvailable"], scanner.Err()
}
