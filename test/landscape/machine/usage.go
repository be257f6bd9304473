// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what the processes of a cgroup have used.
type Usage struct {
	// Memory is what they have allocated at the moment, in bytes. The page cache is left out: the kernel takes it back
	// when it is needed.
	Memory uint64
	// CPU is the processor time since the cgroup was made.
	CPU time.Duration
}

// Usage returns what the cgroup and everything below it has used.
func (c Cgroups) Usage(name string) (Usage, error) {
	memoryFile, memoryKey := filepath.Join(c.Root, "memory", name, "memory.stat"), "total_rss"
	cpuFile, cpuKey, unit := filepath.Join(c.Root, "cpuacct", name, "cpuacct.usage"), "", time.Nanosecond
	if c.Unified {
		memoryFile, memoryKey = filepath.Join(c.Root, name, "memory.stat"), "anon"
		cpuFile, cpuKey, unit = filepath.Join(c.Root, name, "cpu.stat"), "usage_usec", time.Microsecond
	}
	memory, err := readValue(memoryFile, memoryKey)
	if err != nil {
		return Usage{}, err
	}
	cpu, err := readValue(cpuFile, cpuKey)
	if err != nil {
		return Usage{}, err
	}
	return Usage{Memory: memory, CPU: time.Duration(cpu) * unit}, nil
}

// readValue reads the number after a key in a file with a key and a number on each line, or the number that is the
// whole file when there is no key.
func readValue(file, key string) (uint64, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("failed to read usage: %w", err)
	}
	for _, line := range strings.Split(string(content), "\n") {
		if value := strings.TrimSpace(strings.TrimPrefix(line, key)); strings.HasPrefix(line, key) && value != "" {
			number, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("failed to read %s: %w", file, err)
			}
			return number, nil
		}
	}
	return 0, fmt.Errorf("failed to read %s: no value %q", file, key)
}
