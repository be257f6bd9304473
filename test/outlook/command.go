// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// InGroup lets a command, and everything that it starts, end when its context does: it gets a process group of its own,
// which is asked to end, and ended by force a little later. Otherwise a compiler would outlive the script that has
// called it.
func InGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		group := -cmd.Process.Pid
		time.AfterFunc(patience, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		return syscall.Kill(group, syscall.SIGTERM)
	}
	cmd.WaitDelay = 2 * patience
	return cmd
}

const (
	// patience is how long a command may take to end when it is asked to.
	patience = 3 * time.Second
	// interruptLimit is how long a program may take to end after the first interrupt.
	interruptLimit = 12 * time.Second
	// exitInterrupted is what shells give for a program that SIGINT has ended.
	exitInterrupted = 130
)

// Interruptible returns a channel that is closed by the first interrupt. A second interrupt, or a program that does not
// end in time after the first one, ends the program at once; last is called before.
func Interruptible(last func()) (interrupted <-chan struct{}, wasInterrupted func() bool) {
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	var was atomic.Bool
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		was.Store(true)
		close(done)
		select {
		case <-signals:
		case <-time.After(interruptLimit):
		}
		last()
		os.Exit(exitInterrupted)
	}()
	return done, was.Load
}

// Resume says how to resume after an interrupt, and how to clean.
func Resume(during string) string {
	return fmt.Sprintf(`Interrupted (%s). What is built and what is running stays.
  resume:  make demo
  clean:   make landscape-down   (logs, images and binaries stay in .landscape; built components in the cache)`, during)
}

// Tail returns the last lines of a text, each indented.
func Tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// BuildError reports that something could not be compiled, what the compiler said last, and where the rest is.
type BuildError struct {
	// What was to be built.
	What string
	// Output is what the compiler said, Log the file with all of it.
	Output, Log string
	// Cause is how the compiler ended.
	Cause error
}

// shownLines is how many of the compiler's last lines are shown.
const shownLines = 20

// Error returns the last lines of the compiler and the path of the log.
func (e *BuildError) Error() string {
	return fmt.Sprintf("failed to build %s: %v; the compiler's last lines are:\n%s\nall lines are in %s", e.What,
		e.Cause, Tail(e.Output, shownLines), e.Log)
}

// Unwrap returns how the compiler ended.
func (e *BuildError) Unwrap() error { return e.Cause }

// RunLogged runs a command with its output in a log, and calls report with every line of it. The error has the last
// lines.
func RunLogged(cmd *exec.Cmd, what, log string, report func(line string)) error {
	file, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("failed to make log of the build: %w", err)
	}
	defer func() { _ = file.Close() }()
	reader, writer := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(reader)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			report(scanner.Text())
		}
		_, _ = io.Copy(io.Discard, reader)
	}()
	cmd.Stdout = io.MultiWriter(file, writer)
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	_ = writer.Close()
	<-read
	if err == nil {
		return nil
	}
	output, readErr := os.ReadFile(log)
	return &BuildError{What: what, Output: string(output), Log: log, Cause: errors.Join(err, readErr)}
}
