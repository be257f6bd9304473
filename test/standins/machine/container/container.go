// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package container runs programs of the images of a hollow node: with the image as root folder, with what a pod
// mounts, in process and mount namespaces of their own, and in the network of the node or of a pod. There are no
// limits, no capabilities are taken, and nothing is started again: see package hollow for the latter.
package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/thread"
)

// searched are the folders of programs that are named without one.
const searched = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Mount is a file or folder of the node that the container has, too.
type Mount struct {
	// Source is where the node has it, Target where the container does.
	Source, Target string
}

// Container is what is to run.
type Container struct {
	// Image is the folder with the files of the image.
	Image string
	// Args are the program, as seen from the image, and its arguments.
	Args []string
	// Env are variables (name=value).
	Env []string
	// Mounts are what the pod mounts.
	Mounts []Mount
	// Network is that of the pod; nil is the one of the node.
	Network *Network
	// User is who runs the program; nil is root.
	User *syscall.Credential
	// Output takes what the program says; nil drops it.
	Output io.Writer
}

// Process is a container that runs.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts the container. Its root folder is in memory and vanishes with it.
func (c *Container) Start() (*Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("the container has no program")
	}
	root, err := os.MkdirTemp("", "container-")
	if err != nil {
		return nil, fmt.Errorf("failed to make root folder: %w", err)
	}
	process := &Process{done: make(chan struct{})}
	if err := thread.Run(func() (err error) {
		process.cmd, err = c.start(root)
		return err
	}); err != nil {
		_ = os.Remove(root)
		return nil, fmt.Errorf("failed to start %s: %w", c.Args[0], err)
	}
	go func() {
		process.err = process.cmd.Wait()
		_ = os.Remove(root)
		close(process.done)
	}()
	return process, nil
}

func (c *Container) start(root string) (*exec.Cmd, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("failed to make a mount namespace: %w", err)
	}
	if c.Network != nil {
		if err := unix.Setns(int(c.Network.handle), unix.CLONE_NEWNET); err != nil {
			return nil, fmt.Errorf("failed to enter the network of the pod: %w", err)
		}
	}
	if err := c.mountRoot(root); err != nil {
		return nil, err
	}
	env := c.Env
	if !slices.ContainsFunc(env, func(variable string) bool { return strings.HasPrefix(variable, "PATH=") }) {
		env = append([]string{"PATH=" + searched}, env...)
	}
	program, err := find(root, c.Args[0])
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: program, Args: c.Args, Env: env, Dir: "/", Stdout: c.Output, Stderr: c.Output,
		// What the first process of the namespace leaves behind ends with it.
		SysProcAttr: &syscall.SysProcAttr{Chroot: root, Cloneflags: unix.CLONE_NEWPID, Credential: c.User},
		// Who else has the output may not keep the end of the container from being seen.
		WaitDelay: time.Second,
	}
	return cmd, cmd.Start()
}

// find returns the path of a program in the container.
func find(root, name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for folder := range strings.SplitSeq(searched, ":") {
		if info, err := os.Stat(filepath.Join(root, folder, name)); err == nil && info.Mode()&0o111 != 0 {
			return filepath.Join(folder, name), nil
		}
	}
	return "", fmt.Errorf("the image has no %s", name)
}

// mountRoot makes the root folder from the image, with folders to write to, and what the node has for all containers.
func (c *Container) mountRoot(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("failed to separate mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("failed to mount root folder: %w", err)
	}
	mounts := []Mount{{"/proc", "/proc"}, {"/sys", "/sys"}, {"/dev", "/dev"}}
	for _, folder := range []string{"bin", "sbin", "usr", "lib", "lib64"} {
		if source := filepath.Join(c.Image, folder); exists(source) {
			mounts = append(mounts, Mount{source, folder})
		}
	}
	for _, file := range []string{"passwd", "group"} {
		if source := filepath.Join(c.Image, "etc", file); exists(source) {
			mounts = append(mounts, Mount{source, filepath.Join("etc", file)})
		}
	}
	for _, file := range []string{"resolv.conf", "hosts"} {
		if source := filepath.Join("/etc", file); exists(source) {
			mounts = append(mounts, Mount{source, filepath.Join("etc", file)})
		}
	}
	for _, folder := range []string{"tmp", "run", "home/nonroot"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o777); err != nil {
			return fmt.Errorf("failed to make folder: %w", err)
		}
		if err := os.Chmod(filepath.Join(root, folder), 0o777); err != nil {
			return fmt.Errorf("failed to open folder for all: %w", err)
		}
	}
	for _, mount := range append(mounts, c.Mounts...) {
		if err := mount.bind(root); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (m Mount) bind(root string) error {
	target := filepath.Join(root, m.Target)
	info, err := os.Stat(m.Source)
	if err != nil {
		return fmt.Errorf("failed to find what is mounted: %w", err)
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil && !exists(target) {
		err = os.WriteFile(target, nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("failed to make a place to mount to: %w", err)
	}
	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("failed to mount %s: %w", m.Target, err)
	}
	return nil
}

// Done is closed when the container has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the container has ended, which it must have.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Stop ends the container as the kubelet does: it asks for it, and does it after the grace. It returns when the
// container has ended.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
