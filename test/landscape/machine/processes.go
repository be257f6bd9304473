// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessesIn lists the processes whose network namespace is the given one (a path like /run/netns/x). This finds what
// no record names, for example after a crash between the start of a process and its record.
func ProcessesIn(netns string) ([]int, error) {
	var want unix.Stat_t
	if err := unix.Stat(netns, &want); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to look at network namespace %s: %w", netns, err)
	}
	entries, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, fmt.Errorf("failed to list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		var stat unix.Stat_t
		// A process may have gone since the listing.
		if unix.Stat(entry, &stat) != nil || stat.Ino != want.Ino || stat.Dev != want.Dev {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(entry))))
		if err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// KillIn kills every process of the network namespace and waits until none is left. The first process of a node is
// among them; its pods, which have network namespaces of their own, end with it.
func KillIn(netns string) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		pids, err := ProcessesIn(netns)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("failed to end processes %v in network namespace %s", pids, netns)
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("failed to kill process %d: %w", pid, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}
