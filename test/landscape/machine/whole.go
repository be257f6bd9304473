// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// BusyTime is the time that all processors together have not been idle since the machine started.
func BusyTime() (time.Duration, error) {
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

// UsedMemory is the memory of the machine that is not available, in bytes.
func UsedMemory() (int64, error) {
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
