// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Weight is how much of the processors a cgroup gets when all want them, relative to the others. A single thread
// outside of them all has 1. What one does not use, the others get.
type Weight int

// The weights of the landscape. In the field each of these is a machine of its own, or several. When everything is
// busy, a seed has a third of the processors, garden and clients have a sixth each: a control plane cannot be starved
// by its clients or by the garden, and what observes it cannot be starved by it and so measure itself.
const (
	// WeightSeed is that of a seed: its cluster with all its nodes, and the control planes on them.
	WeightSeed Weight = 64
	// WeightNode is that of each of several nodes of a seed. Their cgroups are within that of the seed: they share what
	// it has, with each other and with the cluster's own control plane.
	WeightNode Weight = 1
	// WeightGarden is that of the garden's cluster and of Gardener in it.
	WeightGarden Weight = 32
	// WeightClients is that of load, probes and observers.
	WeightClients Weight = 32
)

// What a weight of 1 is in each version: what a group has if nobody says anything, and what a thread outside has.
const (
	sharesOfOne = 1024 // cpu.shares of version 1
	weightOfOne = 100  // cpu.weight of version 2, which ends at 10000
)

// give sets the weight of the group and reports whether this is the hierarchy that has a file for it.
func (w Weight) give(group string) (given bool, err error) {
	for file, value := range map[string]int{"cpu.shares": sharesOfOne * int(w), "cpu.weight": weightOfOne * int(w)} {
		path := filepath.Join(group, file)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(value)), 0o644); err != nil {
			return false, fmt.Errorf("failed to set the weight of cgroup %s: %w", group, err)
		}
		given = true
	}
	return given, nil
}

// own is the child that a process joins in a cgroup for processes that come by themselves.
const own = "processes"

// JoinOwn puts this process into a cgroup of its own at the top, which comes into being if need be. To leave puts it
// back and removes the cgroup, unless another process is in it.
func (c Cgroups) JoinOwn(name string, weight Weight) (leave func() error, err error) {
	if err := c.Ensure(name, weight); err != nil {
		return nil, err
	}
	back, err := c.Join(name, own)
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := back(); err != nil {
			return err
		}
		hierarchies, err := c.hierarchies()
		if err != nil {
			return err
		}
		for _, hierarchy := range hierarchies {
			if err := removeTree(filepath.Join(hierarchy, name)); err != nil && !errors.Is(err, unix.EBUSY) {
				return fmt.Errorf("failed to remove cgroup %s: %w", filepath.Join(hierarchy, name), err)
			}
		}
		return nil
	}, nil
}

// RemoveOwn removes a cgroup that processes have joined by JoinOwn. Those that still run are put outside.
func (c Cgroups) RemoveOwn(name string) error {
	if err := c.Evict(name, own); err != nil {
		return err
	}
	return c.Remove(name)
}

// outsideLeaf is where the processes of a container are put that were at the root of what it sees of version 2.
const outsideLeaf = "livecpm-outside"

// outside is where processes are that are in no cgroup of ours.
func (c Cgroups) outside(hierarchy string) string {
	leaf := filepath.Join(hierarchy, outsideLeaf)
	if _, err := os.Stat(leaf); c.Unified && err == nil {
		return leaf
	}
	return hierarchy
}

// enableAtRoot lets children of the root of version 2 have controllers. The machine's root may have both processes and
// such children. What a container takes for the root is none: the kernel refuses that with EBUSY as long as processes
// are directly in it, so they are put into a child. It stays there, and they with it: they were never given a weight.
func (c Cgroups) enableAtRoot() error {
	err := enableControllers(c.Root)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	leaf := filepath.Join(c.Root, outsideLeaf)
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return fmt.Errorf("failed to make cgroup: %w", err)
	}
	if err := moveAll(c.Root, leaf); err != nil {
		return err
	}
	return enableControllers(c.Root)
}

// moveAll moves the processes of one cgroup into another one.
func moveAll(from, to string) error {
	processes, err := os.ReadFile(filepath.Join(from, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to read the processes of cgroup %s: %w", from, err)
	}
	for _, pid := range strings.Fields(string(processes)) {
		// Threads of the kernel cannot be moved, and a process may have ended.
		if err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(pid), 0o644); err != nil &&
			!errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("failed to move process %s from cgroup %s to %s: %w", pid, from, to, err)
		}
	}
	return nil
}
