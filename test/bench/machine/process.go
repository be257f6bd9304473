// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package machine tells what processes and the machine use, and what kind of machine it is.
package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/livecpm/livecpm/test/bench/data"
)

// Proc is where the kernel tells about processes.
const Proc = "/proc"

// tick is the unit of processor time in the process file system, the same on all common architectures.
const tick = 10 * time.Millisecond

// Sample is what a process has used until now.
type Sample struct {
	// CPU is its processor time.
	CPU time.Duration
	// ResidentMiB is the memory that it has resident, PeakMiB the most that it ever had.
	ResidentMiB, PeakMiB float64
}

// Read returns what a process has used until now.
func Read(proc string, pid int) (Sample, error) {
	folder := filepath.Join(proc, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return Sample{}, fmt.Errorf("failed to read what process %d uses: %w", pid, err)
	}
	// The name of the program is in parentheses and may contain anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const userTime, systemTime = 11, 12
	if len(fields) <= systemTime {
		return Sample{}, fmt.Errorf("failed to read what process %d uses: %q", pid, stat)
	}
	var ticks int64
	for _, field := range []string{fields[userTime], fields[systemTime]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Sample{}, fmt.Errorf("failed to read what process %d uses: %w", pid, err)
		}
		ticks += n
	}
	sample := Sample{CPU: time.Duration(ticks) * tick}

	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return Sample{}, fmt.Errorf("failed to read what process %d uses: %w", pid, err)
	}
	sample.ResidentMiB, sample.PeakMiB = kibibytes(string(status), "VmRSS:")/1024,
		kibibytes(string(status), "VmHWM:")/1024
	return sample, nil
}

// kibibytes returns the figure of the line with the key, 0 if there is none.
func kibibytes(text, key string) float64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			value, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err == nil {
				return value
			}
		}
	}
	return 0
}

// Meter follows the processes of some programs, which may come and go.
type Meter struct {
	proc, cgroup string
	programs     []string

	lock  sync.Mutex
	seen  map[string]*followed // by program and process
	first bool
}

type followed struct {
	program     string
	begin, last Sample
	largest     float64
}

// NewMeter returns a meter for the processes of the programs whose cgroup's name contains the text.
func NewMeter(proc, cgroup string, programs ...string) *Meter {
	return &Meter{proc: proc, cgroup: cgroup, programs: programs, seen: map[string]*followed{}, first: true}
}

// Sample looks at the processes. What a process had used before the first look does not count, all that one used that
// came later does. What a process uses after the last look at it is not seen.
func (m *Meter) Sample() {
	m.lock.Lock()
	defer m.lock.Unlock()
	entries, err := os.ReadDir(m.proc)
	if err != nil {
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		program := m.program(pid)
		if program == "" {
			continue
		}
		sample, err := Read(m.proc, pid)
		if err != nil {
			continue // it has just ended
		}
		key := fmt.Sprintf("%s %d", program, pid)
		f, known := m.seen[key]
		if !known {
			f = &followed{program: program}
			if m.first {
				f.begin = sample
			}
			m.seen[key] = f
		}
		f.last, f.largest = sample, max(f.largest, sample.ResidentMiB)
	}
	m.first = false
}

// program returns which of the programs the process runs, or nothing.
func (m *Meter) program(pid int) string {
	folder := filepath.Join(m.proc, strconv.Itoa(pid))
	command, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(command), "\x00")
	for _, program := range m.programs {
		if filepath.Base(name) == program {
			cgroup, err := os.ReadFile(filepath.Join(folder, "cgroup"))
			if err == nil && strings.Contains(string(cgroup), m.cgroup) {
				return program
			}
		}
	}
	return ""
}

// Report returns what each of the programs has used since the first look.
func (m *Meter) Report() map[string]data.Process {
	m.lock.Lock()
	defer m.lock.Unlock()
	out := map[string]data.Process{}
	for _, f := range m.seen {
		sum := out[f.program]
		sum.CPUSeconds += (f.last.CPU - f.begin.CPU).Seconds()
		sum.PeakMiB = max(sum.PeakMiB, f.largest)
		out[f.program] = sum
	}
	return out
}
