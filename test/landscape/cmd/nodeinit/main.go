// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command nodeinit is the first process of a node. It is started in new mount, pid, uts and ipc namespaces, arranges
// the mounts a node needs, and collects orphans from then on. When it is killed, the kernel ends every process of the
// node and drops every mount.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReadyFile appears in the node's mount namespace when the mounts are arranged.
const readyFile = "/run/nodeinit-ready"

func main() {
	hostname := flag.String("hostname", "", "host name of the node")
	binds := flag.String("binds", "", "comma-separated source=target pairs of folders to mount")
	memory := flag.String("memory", "", "comma-separated folders to keep in memory")
	flag.Parse()
	if err := arrange(*hostname, *binds, *memory); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	reap()
}

func arrange(hostname, binds, memory string) error {
	// First a slave, so that nothing of the node reaches the machine; then shared, so that containers can receive
	// mounts of the kubelet.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("failed to detach the mounts from the machine: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("failed to share the mounts within the node: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("failed to mount /proc: %w", err)
	}
	// The runtime keeps its sockets and state below /run at fixed paths: each node has its own.
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("failed to mount /run: %w", err)
	}
	for _, pair := range strings.Split(binds, ",") {
		if pair == "" {
			continue
		}
		source, target, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q is not source=target", pair)
		}
		if err := os.MkdirAll(filepath.Clean(target), 0o755); err != nil {
			return fmt.Errorf("failed to make folder: %w", err)
		}
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("failed to mount %s at %s: %w", source, target, err)
		}
		if err := unix.Mount("", target, "", unix.MS_SHARED, ""); err != nil {
			return fmt.Errorf("failed to share mount %s: %w", target, err)
		}
	}
	for _, target := range strings.Split(memory, ",") {
		if target == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Clean(target), 0o755); err != nil {
			return fmt.Errorf("failed to make folder: %w", err)
		}
		if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return fmt.Errorf("failed to mount memory at %s: %w", target, err)
		}
		if err := unix.Mount("", target, "", unix.MS_SHARED, ""); err != nil {
			return fmt.Errorf("failed to share mount %s: %w", target, err)
		}
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("failed to set host name: %w", err)
	}
	if err := os.WriteFile(readyFile, nil, 0o644); err != nil {
		return fmt.Errorf("failed to report readiness: %w", err)
	}
	return nil
}

// reap collects ended orphans forever. The first process of a pid namespace gets only those signals it handles, so
// that nothing inside the node can end it.
func reap() {
	children := make(chan os.Signal, 16)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			var status unix.WaitStatus
			if pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
