// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// loopsLeaf is the child of a cgroup that endless loops are in.
const loopsLeaf = "loops"

// loop joins the cgroups whose folders follow its first argument, and computes until the process of that id is gone.
const loop = `parent=$1; shift
for folder; do echo $$ > "$folder/cgroup.procs" || exit 1; done
while kill -0 "$parent" 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done`

// BeginLoops starts so many endless loops in a child of a cgroup, which has the weight of one processor beside the
// other children. They end with this process, or by EndLoops.
func (c Cgroups) BeginLoops(group string, count int) error {
	hierarchies, err := c.hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if _, err := os.Stat(filepath.Join(hierarchy, group)); err != nil {
			return fmt.Errorf("failed to find cgroup %s: %w", group, err)
		}
	}
	folders, err := c.EnsureLeaf(group, loopsLeaf)
	if err != nil {
		return err
	}
	arguments := append([]string{"-c", loop, "loop", strconv.Itoa(os.Getpid())}, folders...)
	for range count {
		cmd := exec.Command("sh", arguments...) // #nosec G204 -- the folders are our own.
		if err := cmd.Start(); err != nil {
			return errors.Join(fmt.Errorf("failed to start a loop: %w", err), c.EndLoops(group))
		}
		go func() { _ = cmd.Wait() }()
	}
	return nil
}

// EndLoops ends the loops in a cgroup, whoever has started them, and removes their child of it. It does nothing if
// there are none.
func (c Cgroups) EndLoops(group string) error {
	pids, err := c.loops(group)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("failed to end loop %d in cgroup %s: %w", pid, group, err)
		}
	}
	return c.Remove(filepath.Join(group, loopsLeaf))
}

// Loops returns how many loops there are in a cgroup, and what they have used since they began.
func (c Cgroups) Loops(group string) (int, Usage, error) {
	pids, err := c.loops(group)
	if err != nil || len(pids) == 0 {
		return 0, Usage{}, err
	}
	usage, err := c.Usage(filepath.Join(group, loopsLeaf))
	return len(pids), usage, err
}

func (c Cgroups) loops(group string) ([]int, error) {
	file := filepath.Join(c.Root, "cpu", group, loopsLeaf, "cgroup.procs")
	if c.Unified {
		file = filepath.Join(c.Root, group, loopsLeaf, "cgroup.procs")
	}
	content, err := os.ReadFile(file) // #nosec G304 -- the cgroup file system.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the loops in cgroup %s: %w", group, err)
	}
	var pids []int
	for _, field := range strings.Fields(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", file, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
