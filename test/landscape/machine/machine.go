// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package machine changes what belongs to the whole machine (kernel parameters, cgroups, folders) and puts it back.
package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// kubeletSysctls are what a kubelet changes at its start (setupKernelTunables in its container manager). They are only
// recorded.
var kubeletSysctls = []string{
	"vm/overcommit_memory",
	"vm/panic_on_oom",
	"kernel/panic",
	"kernel/panic_on_oops",
	"kernel/keys/root_maxkeys",
	"kernel/keys/root_maxbytes",
}

// raisedSysctls are limits that some tens of Kubernetes processes exceed with the kernel's defaults.
var raisedSysctls = map[string]int{
	"fs/inotify/max_user_instances": 8192,
	"fs/inotify/max_user_watches":   524288,
}

// Sysctls keeps the original kernel parameters. Several landscapes can share a machine: the first one to come records
// the parameters and the last one to go puts them back. The record is in a folder that a restart of the machine
// empties, as it does the parameters.
type Sysctls struct {
	// Dir is the folder of the record.
	Dir string
	// Proc is the root of the kernel parameters, /proc/sys.
	Proc string
}

// DefaultSysctls are those of the machine.
func DefaultSysctls() Sysctls { return Sysctls{Dir: "/run/livecpm", Proc: "/proc/sys"} }

func (s Sysctls) originals() string           { return filepath.Join(s.Dir, "sysctls.json") }
func (s Sysctls) user(prefix string) string   { return filepath.Join(s.Dir, "users", prefix) }
func (s Sysctls) parameter(key string) string { return filepath.Join(s.Proc, key) }

// Acquire records the original parameters and raises limits. It is called before anything changes a parameter.
func (s Sysctls) Acquire(prefix string) error {
	if err := os.MkdirAll(filepath.Dir(s.user(prefix)), 0o755); err != nil {
		return fmt.Errorf("failed to make folder for kernel parameters: %w", err)
	}
	if err := os.WriteFile(s.user(prefix), nil, 0o644); err != nil {
		return fmt.Errorf("failed to register for kernel parameters: %w", err)
	}
	if _, err := os.Stat(s.originals()); errors.Is(err, fs.ErrNotExist) {
		values := map[string]string{}
		keys := append([]string(nil), kubeletSysctls...)
		for key := range raisedSysctls {
			keys = append(keys, key)
		}
		for _, key := range keys {
			value, err := s.read(key)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("failed to read kernel parameter %s: %w", key, err)
			}
			values[key] = value
		}
		content, err := json.MarshalIndent(values, "", "  ")
		if err != nil {
			return fmt.Errorf("failed to encode kernel parameters: %w", err)
		}
		if err := os.WriteFile(s.originals()+".new", content, 0o644); err != nil {
			return fmt.Errorf("failed to record kernel parameters: %w", err)
		}
		if err := os.Rename(s.originals()+".new", s.originals()); err != nil {
			return fmt.Errorf("failed to record kernel parameters: %w", err)
		}
	}
	for key, minimum := range raisedSysctls {
		value, err := s.read(key)
		if err != nil {
			return fmt.Errorf("failed to read kernel parameter %s: %w", key, err)
		}
		if current, err := strconv.Atoi(value); err == nil && current >= minimum {
			continue
		}
		if err := os.WriteFile(s.parameter(key), []byte(strconv.Itoa(minimum)), 0o644); err != nil {
			return fmt.Errorf("failed to raise kernel parameter %s: %w", key, err)
		}
	}
	return nil
}

// Release puts the original parameters back, unless another landscape still runs. It reports whether this was the last
// one.
func (s Sysctls) Release(prefix string) (bool, error) {
	if err := os.Remove(s.user(prefix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("failed to unregister for kernel parameters: %w", err)
	}
	others, err := os.ReadDir(filepath.Dir(s.user(prefix)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("failed to list users of kernel parameters: %w", err)
	}
	if len(others) > 0 {
		return false, nil
	}
	content, err := os.ReadFile(s.originals())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("failed to read recorded kernel parameters: %w", err)
	}
	values := map[string]string{}
	if err := json.Unmarshal(content, &values); err != nil {
		return false, fmt.Errorf("failed to decode recorded kernel parameters: %w", err)
	}
	for key, value := range values {
		if current, err := s.read(key); err == nil && current == value {
			continue
		}
		if err := os.WriteFile(s.parameter(key), []byte(value), 0o644); err != nil {
			return false, fmt.Errorf("failed to put back kernel parameter %s: %w", key, err)
		}
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		return false, fmt.Errorf("failed to remove record of kernel parameters: %w", err)
	}
	return true, nil
}

func (s Sysctls) read(key string) (string, error) {
	content, err := os.ReadFile(s.parameter(key))
	return strings.TrimSpace(string(content)), err
}
