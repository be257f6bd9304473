// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package process starts the landscape's daemons in their namespaces, finds them again after the starter has gone, and
// ends them. A daemon outlives the program that started it.
package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/thread"
)

// Namespaces are paths of namespace files, for example /run/netns/x or /proc/1/ns/mnt. An empty path means the
// namespace of the caller.
type Namespaces struct {
	Net, Mount, PID, UTS, IPC string
}

// Spec says how a daemon runs.
type Spec struct {
	// Name is unique in the landscape; the log is logs/<Name>.log.
	Name string
	// Command is the absolute path of the program and its arguments.
	Command []string
	// Env is the environment besides PATH, HOME, GOGC and GOMAXPROCS.
	Env []string
	// Namespaces are those the daemon runs in.
	Namespaces Namespaces
	// NewNamespaces are clone flags for namespaces of the daemon's own.
	NewNamespaces uintptr
	// Cgroups are folders of the cgroup file system that the daemon is put into.
	Cgroups []string
	// Files are configuration files: when one of them changes, Ensure starts the daemon again.
	Files []string
}

// record is what is kept about a running daemon. The start time tells it from a later process with the same id.
type record struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"`
	Digest    string `json:"digest"`
}

// Status is what is known about a daemon.
type Status struct {
	Name    string
	PID     int
	Running bool
	Log     string
}

// Manager knows the daemons of one state folder.
type Manager struct {
	state string
}

// NewManager returns the manager of the state folder.
func NewManager(state string) *Manager { return &Manager{state: state} }

// LogFile returns the path of the daemon's log.
func (m *Manager) LogFile(name string) string { return filepath.Join(m.state, "logs", name+".log") }

func (m *Manager) recordFile(name string) string {
	return filepath.Join(m.state, "processes", name+".json")
}

// Ensure starts the daemon unless it runs already with the same command, environment, namespaces and files. A daemon
// that runs with other ones is ended first; one that somebody has stopped where it stands, as a fault that was never
// healed does, continues. It returns whether it started the daemon.
func (m *Manager) Ensure(ctx context.Context, spec Spec) (bool, error) {
	digest, err := spec.digest()
	if err != nil {
		return false, err
	}
	if old, ok := m.running(spec.Name); ok {
		if old.Digest == digest {
			if err := old.resume(); err != nil {
				return false, fmt.Errorf("failed to let %s continue: %w", spec.Name, err)
			}
			return false, nil
		}
		if err := m.Stop(ctx, spec.Name); err != nil {
			return false, err
		}
	}
	return true, m.start(spec, digest)
}

// Current returns whether the daemon runs just as specified, so that Ensure would leave it alone.
func (m *Manager) Current(spec Spec) (bool, error) {
	digest, err := spec.digest()
	if err != nil {
		return false, err
	}
	old, ok := m.running(spec.Name)
	return ok && old.Digest == digest, nil
}

func (m *Manager) start(spec Spec, digest string) error {
	for _, dir := range []string{filepath.Dir(m.LogFile(spec.Name)), filepath.Dir(m.recordFile(spec.Name))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("failed to make folder for %s: %w", spec.Name, err)
		}
	}
	log, err := os.OpenFile(m.LogFile(spec.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("failed to open log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	cmd := spec.cmd()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Setsid = true
	if err := spec.Namespaces.Do(cmd.Start); err != nil {
		return fmt.Errorf("failed to start %s: %w", spec.Name, err)
	}
	// Reap the daemon if it ends while this program still runs; otherwise it would look alive as a zombie.
	go func() { _ = cmd.Wait() }()
	started, err := startTime(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("%s ended at once: %w", spec.Name, m.logError(spec.Name))
	}
	if err := joinCgroups(cmd.Process.Pid, spec.Cgroups); err != nil {
		return fmt.Errorf("failed to put %s into its cgroup: %w", spec.Name, err)
	}
	content, err := json.Marshal(record{PID: cmd.Process.Pid, StartTime: started, Digest: digest})
	if err != nil {
		return fmt.Errorf("failed to encode record of %s: %w", spec.Name, err)
	}
	if err := os.WriteFile(m.recordFile(spec.Name), content, 0o644); err != nil {
		return fmt.Errorf("failed to write record of %s: %w", spec.Name, err)
	}
	return nil
}

// Stop ends the daemon: politely first, by force after ten seconds. A daemon that does not run is no error.
func (m *Manager) Stop(ctx context.Context, name string) error {
	old, ok := m.running(name)
	if !ok {
		return m.forget(name)
	}
	if err := unix.Kill(old.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("failed to end %s: %w", name, err)
	}
	// One that stands still gets the signal when it continues.
	if err := old.resume(); err != nil {
		return fmt.Errorf("failed to let %s continue, so that it can end: %w", name, err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for forced := false; ; {
		if _, ok := m.running(name); !ok {
			return m.forget(name)
		}
		if time.Now().After(deadline) {
			if forced {
				return fmt.Errorf("failed to end %s: process %d does not go away", name, old.PID)
			}
			forced, deadline = true, time.Now().Add(10*time.Second)
			if err := unix.Kill(old.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("failed to kill %s: %w", name, err)
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func (m *Manager) forget(name string) error {
	if err := os.Remove(m.recordFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("failed to remove record of %s: %w", name, err)
	}
	return nil
}

// PID returns the process id of the daemon, or 0 when it does not run.
func (m *Manager) PID(name string) int {
	old, ok := m.running(name)
	if !ok {
		return 0
	}
	return old.PID
}

// List returns the status of every daemon that was started and not ended on purpose.
func (m *Manager) List() ([]Status, error) {
	files, err := filepath.Glob(m.recordFile("*"))
	if err != nil {
		return nil, fmt.Errorf("failed to list records: %w", err)
	}
	sort.Strings(files)
	var result []Status
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		old, ok := m.running(name)
		result = append(result, Status{Name: name, PID: old.PID, Running: ok, Log: m.LogFile(name)})
	}
	return result, nil
}

// Wait calls probe until it succeeds. It gives up when the context ends or, at once, when the daemon dies; the error
// then names the log and carries its last lines.
func (m *Manager) Wait(ctx context.Context, name string, probe func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := probe(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if m.PID(name) == 0 {
			return fmt.Errorf("%s died: %w", name, m.logError(name))
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s does not get ready: %w; %w", name, err, m.logError(name))
		}
	}
}

// logError points to the daemon's log and quotes its end.
func (m *Manager) logError(name string) error {
	return fmt.Errorf("see %s, which ends with:\n%s", m.LogFile(name), Tail(m.LogFile(name), 15))
}

// Tail returns the last lines of a file, each indented.
func Tail(file string, lines int) string {
	const window = 16 * 1024
	f, err := os.Open(file)
	if err != nil {
		return "  (no log)"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > window {
		_, _ = f.Seek(-window, io.SeekEnd)
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return "  (log cannot be read)"
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "  " + strings.Join(all, "\n  ")
}

// Run runs a command to its end in the namespaces and returns its output. The error carries what it printed.
func Run(ctx context.Context, spec Spec) (string, error) {
	cmd := spec.cmd()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := spec.Namespaces.Do(cmd.Start); err != nil {
		return "", fmt.Errorf("failed to start %s: %w", strings.Join(spec.Command, " "), err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return stdout.String(), fmt.Errorf("failed to run %s: %w: %s", strings.Join(spec.Command, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// GCPercent has Go's programs collect garbage half as often: the machine has memory to spare and no processors.
const GCPercent = 200

// MaxProcs returns on how many processors a program of Go runs: on half of them, because the landscape has more than a
// hundred of them, and threads that wake up only to look for work take it from the others.
func MaxProcs() int { return max(1, runtime.NumCPU()/2) }

func (s Spec) cmd() *exec.Cmd {
	return &exec.Cmd{
		Path: s.Command[0],
		Args: s.Command,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/root", fmt.Sprintf("GOGC=%d", GCPercent),
			fmt.Sprintf("GOMAXPROCS=%d", MaxProcs())}, s.Env...),
		Dir:         "/",
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: s.NewNamespaces},
	}
}

// digest covers everything that makes the daemon what it is, the content of its files included.
func (s Spec) digest() (string, error) {
	hash := sha256.New()
	encoded, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("failed to encode specification of %s: %w", s.Name, err)
	}
	hash.Write(encoded)
	for _, file := range s.Files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("failed to read configuration of %s: %w", s.Name, err)
		}
		fmt.Fprintf(hash, "%s %d\n", file, len(content))
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Do calls f on a thread of its own that has joined the namespaces. What f starts stays in them.
func (n Namespaces) Do(f func() error) error {
	return thread.Run(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return f()
	})
}

func (n Namespaces) enter() error {
	type join struct {
		path string
		flag int
	}
	// The mount namespace comes last: the other paths may not be visible from inside.
	var files []*os.File
	var flags []int
	for _, j := range []join{{n.Net, unix.CLONE_NEWNET}, {n.UTS, unix.CLONE_NEWUTS}, {n.IPC, unix.CLONE_NEWIPC},
		{n.PID, unix.CLONE_NEWPID}, {n.Mount, unix.CLONE_NEWNS}} {
		if j.path == "" {
			continue
		}
		file, err := os.Open(j.path)
		if err != nil {
			return fmt.Errorf("failed to open namespace: %w", err)
		}
		defer file.Close()
		files, flags = append(files, file), append(flags, j.flag)
	}
	if n.Mount != "" {
		// The kernel lets a thread change its mount namespace only when it shares its root and working directory with
		// no other thread.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("failed to unshare the file system attributes: %w", err)
		}
	}
	for i, file := range files {
		if err := unix.Setns(int(file.Fd()), flags[i]); err != nil {
			return fmt.Errorf("failed to join namespace %s: %w", file.Name(), err)
		}
	}
	return nil
}

func (m *Manager) running(name string) (record, bool) {
	var r record
	content, err := os.ReadFile(m.recordFile(name))
	if err != nil || json.Unmarshal(content, &r) != nil {
		return record{}, false
	}
	started, err := startTime(r.PID)
	return r, err == nil && started == r.StartTime
}

// resume lets the daemon continue if it stands still because of a signal (SIGSTOP). Others do not notice.
func (r record) resume() error {
	if err := unix.Kill(r.PID, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("failed to send SIGCONT to process %d: %w", r.PID, err)
	}
	return nil
}

// startTime returns when a process started, in clock ticks since the machine did. A zombie counts as gone.
func startTime(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStartTime(string(content))
}

func parseStartTime(stat string) (uint64, error) {
	// The second field is the command in parentheses and may itself contain blanks and parentheses.
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("not a process status")
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return 0, errors.New("process status is too short")
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errors.New("process has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func joinCgroups(pid int, cgroups []string) error {
	for _, dir := range cgroups {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
