// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroups is the machine's cgroup file system, version 1 (one hierarchy per controller, with or without an additional
// unified one) or version 2 (one hierarchy).
type Cgroups struct {
	// Root is where it is mounted, /sys/fs/cgroup.
	Root string
	// Unified says that there is only the one hierarchy of version 2.
	Unified bool
}

// controllers are those of version 2 that a kubelet demands where the machine has them (getSupportedUnifiedControllers
// in its container manager), and io to see what is used.
var controllers = []string{"cpu", "cpuset", "memory", "hugetlb", "pids", "io"}

// measured are the hierarchies of version 1 that daemons are put into: enough to see what they use.
var measured = []string{"cpu", "cpuacct", "memory", "pids"}

// DetectCgroups finds out which version the machine has.
func DetectCgroups() (Cgroups, error) {
	c := Cgroups{Root: "/sys/fs/cgroup"}
	var stat unix.Statfs_t
	if err := unix.Statfs(c.Root, &stat); err != nil {
		return c, fmt.Errorf("failed to look at the cgroup file system: %w", err)
	}
	c.Unified = stat.Type == unix.CGROUP2_SUPER_MAGIC
	return c, nil
}

// hierarchies lists the folders that a cgroup has to be made in.
func (c Cgroups) hierarchies() ([]string, error) {
	if c.Unified {
		return []string{c.Root}, nil
	}
	entries, err := os.ReadDir(c.Root)
	if err != nil {
		return nil, fmt.Errorf("failed to list cgroup hierarchies: %w", err)
	}
	var dirs []string
	for _, entry := range entries {
		// Joint hierarchies (cpu,cpuacct) are found by links named after each controller.
		dir := filepath.Join(c.Root, entry.Name())
		if info, err := os.Stat(dir); err == nil && info.IsDir() && entry.Type()&fs.ModeSymlink == 0 {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// Ensure makes the cgroup in every hierarchy, in a state in which children can be made and used. In version 2 processes
// may only be put into its children.
func (c Cgroups) Ensure(name string, weight Weight) error {
	dirs, err := c.hierarchies()
	if err != nil {
		return err
	}
	weighed := false
	for _, dir := range dirs {
		group := filepath.Join(dir, name)
		if c.Unified {
			if err := c.enableAtRoot(); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("failed to make cgroup: %w", err)
		}
		given, err := weight.give(group)
		if err != nil {
			return err
		}
		weighed = weighed || given
		if c.Unified {
			if err := enableControllers(group); err != nil {
				return err
			}
			continue
		}
		// In version 1 a new cpuset is empty and refuses processes until it has processors and memory nodes.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(dir, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("failed to read cpuset: %w", err)
			}
			if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
				return fmt.Errorf("failed to fill cpuset of %s: %w", group, err)
			}
		}
	}
	if !weighed {
		return fmt.Errorf("failed to set the weight of cgroup %s: no hierarchy below %s has the controller cpu", name,
			c.Root)
	}
	return nil
}

// EnsureLeaf makes a child of a cgroup for daemons and returns its folders, for process.Spec.
func (c Cgroups) EnsureLeaf(parent, name string) ([]string, error) {
	var dirs []string
	if c.Unified {
		dirs = []string{filepath.Join(c.Root, parent, name)}
	} else {
		for _, hierarchy := range measured {
			if _, err := os.Stat(filepath.Join(c.Root, hierarchy)); err == nil {
				dirs = append(dirs, filepath.Join(c.Root, hierarchy, parent, name))
			}
		}
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("failed to make cgroup: %w", err)
		}
	}
	return dirs, nil
}

// Join puts this process into a child of a cgroup: there it has the weight that the cgroup has, and not the little that
// is left of a busy machine. It returns how to go back, which must be done before the cgroup can be removed.
func (c Cgroups) Join(parent, name string) (leave func() error, err error) {
	folders, err := c.EnsureLeaf(parent, name)
	if err != nil {
		return nil, err
	}
	lines, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("failed to read the own cgroups: %w", err)
	}
	before := map[string]string{}
	for _, folder := range folders {
		hierarchy := strings.TrimSuffix(folder, filepath.Join("/", parent, name))
		path := ownCgroup(string(lines), strings.Trim(strings.TrimPrefix(hierarchy, c.Root), "/"))
		if before[hierarchy] = filepath.Join(hierarchy, path); path == "/" {
			before[hierarchy] = c.outside(hierarchy)
		}
	}
	leave = func() error {
		var errs []error
		for _, folder := range before {
			errs = append(errs, moveSelf(folder))
		}
		return errors.Join(errs...)
	}
	for _, folder := range folders {
		if err := moveSelf(folder); err != nil {
			return nil, errors.Join(err, leave())
		}
	}
	return leave, nil
}

// Evict puts the processes of a child of a cgroup, which have joined it and may still run, outside of all cgroups, so
// that it can be removed.
func (c Cgroups) Evict(parent, name string) error {
	hierarchies, err := c.hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if err := moveAll(filepath.Join(hierarchy, parent, name), c.outside(hierarchy)); err != nil {
			return err
		}
	}
	return nil
}

// ownCgroup returns the path in a hierarchy from the lines of /proc/self/cgroup: number, controllers, path (see
// cgroups(7)). The one hierarchy of version 2 has no controllers there.
func ownCgroup(lines, hierarchy string) string {
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), hierarchy) {
			return fields[2]
		}
	}
	return "/"
}

func moveSelf(folder string) error {
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())),
		0o644); err != nil {
		return fmt.Errorf("failed to move into cgroup %s: %w", folder, err)
	}
	return nil
}

// Remove removes the cgroup and everything below it. Its processes must have been killed; those that are still about to
// go are waited for.
func (c Cgroups) Remove(name string) error {
	dirs, err := c.hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		group := filepath.Join(dir, name)
		deadline := time.Now().Add(10 * time.Second)
		for {
			err := removeTree(group)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("failed to remove cgroup %s: %w", group, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// removeTree removes folders only, from the leaves up: the files of a cgroup cannot be removed and go with it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func enableControllers(dir string) error {
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("failed to read cgroup controllers: %w", err)
	}
	enabled, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("failed to read enabled cgroup controllers: %w", err)
	}
	for _, controller := range controllers {
		if !contains(string(available), controller) || contains(string(enabled), controller) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller),
			0o644); err != nil {
			return fmt.Errorf("failed to enable cgroup controller %s in %s: %w", controller, dir, err)
		}
	}
	return nil
}

func contains(list, word string) bool {
	for _, field := range strings.Fields(list) {
		if field == word {
			return true
		}
	}
	return false
}
