// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/livecpm/livecpm/test/landscape/config"
)

// traces lists what of the landscape is on the machine: network namespaces, interfaces, mounts, cgroups and processes.
func traces(cfg *config.Config) []string {
	var found []string
	mine := func(text string) bool {
		if strings.Contains(text, cfg.State+"/") {
			return true
		}
		for _, name := range cfg.Netns() {
			if strings.Contains(text, name) {
				return true
			}
		}
		return false
	}

	for _, name := range cfg.Netns() {
		if _, err := os.Stat(filepath.Join("/run/netns", name)); err == nil {
			found = append(found, "network namespace "+name)
		}
	}
	if _, err := os.Stat(filepath.Join("/sys/class/net", cfg.HostInterface())); err == nil {
		found = append(found, "interface "+cfg.HostInterface())
	}
	for line := range strings.Lines(read("/proc/self/mounts")) {
		if mine(line) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && mine(entry.Name()) {
			found = append(found, "cgroup "+path)
			return fs.SkipDir
		}
		return nil
	})
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if filepath.Base(process) == strconv.Itoa(os.Getpid()) {
			continue
		}
		// Programs in containers do not show by their command line where they come from, but by their cgroup.
		command := strings.ReplaceAll(read(filepath.Join(process, "cmdline")), "\x00", " ")
		if mine(command) || mine(read(filepath.Join(process, "cgroup"))) {
			found = append(found, fmt.Sprintf("process %s %s", filepath.Base(process), command))
		}
	}
	return found
}

// sysctls are the parameters of the whole machine that kubelets and container runtimes are known to change.
func sysctls() map[string]string {
	values := map[string]string{}
	for _, name := range []string{
		"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
		"vm/overcommit_memory", "vm/panic_on_oom",
		"fs/inotify/max_user_instances", "fs/inotify/max_user_watches",
		"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables",
	} {
		values[name] = strings.TrimSpace(read("/proc/sys/" + name))
	}
	return values
}

// read returns nothing for files that cannot be read, such as those of processes that have just ended.
func read(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}
