// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// FolderLogs is the folder of the suites' logs, from the root of the repository.
const FolderLogs = "_artifacts/release"

// Runner runs suites.
type Runner struct {
	// Repository is the root of the repository.
	Repository string
	// Make runs a call of make and writes what it prints. The error has its exit code, or that of the context.
	Make func(ctx context.Context, repository string, arguments []string, log io.Writer) error
	// Commit returns what is checked out, and whether files differ from it.
	Commit func(ctx context.Context, repository string) (commit string, changed bool, err error)
	Clock  clock.PassiveClock
	// Out gets a line at the beginning and at the end of each suite.
	Out io.Writer
}

// errFailed says that a suite has failed.
var errFailed = errors.New("not every suite has passed: " + FilePage + " names those that have not")

// Run runs one suite after the other and records each result as soon as there is one. It returns an error if one of
// them has failed, or could not be recorded. When the context ends, it records that of the suite that was running, and
// runs no other.
func (r *Runner) Run(ctx context.Context, suites []Suite) error {
	failed := false
	for _, suite := range suites {
		result, err := r.one(ctx, suite)
		if err != nil {
			return err
		}
		if err := Add(r.Repository, result); err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "=== %s: %s after %.0f s\n", suite.Name, result.words(), result.Seconds)
		failed = failed || result.Verdict != Passed
		if ctx.Err() != nil {
			return fmt.Errorf("suite %s was interrupted, the suites after it were not run: %w", suite.Name, ctx.Err())
		}
	}
	if failed {
		return errFailed
	}
	return nil
}

// one runs a suite. Its last command runs in any case if it takes the landscape down.
func (r *Runner) one(ctx context.Context, suite Suite) (Result, error) {
	result := Result{Suite: suite.Name, Begun: r.Clock.Now().UTC(), Verdict: Passed}
	var err error
	if result.Commit, result.Changed, err = r.Commit(ctx, r.Repository); err != nil {
		return Result{}, err
	}
	path := filepath.Join(r.Repository, FolderLogs, suite.Name+".log")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Result{}, fmt.Errorf("failed to make the folder of the logs: %w", err)
	}
	log, err := os.Create(path) // #nosec G304 -- the names of the suites are ours.
	if err != nil {
		return Result{}, fmt.Errorf("failed to make the log of suite %s: %w", suite.Name, err)
	}
	fmt.Fprintf(r.Out, "=== %s: %s (log: %s)\n", suite.Name, suite, path)
	for _, arguments := range suite.Commands {
		if result.Verdict != Passed && arguments[0] != landscapeDown[0] {
			continue
		}
		callCtx := ctx
		if arguments[0] == landscapeDown[0] {
			callCtx = context.WithoutCancel(ctx)
		}
		if err := r.Make(callCtx, r.Repository, arguments, log); result.Verdict == Passed {
			r.judge(ctx, &result, arguments, err)
		}
	}
	result.Seconds = r.Clock.Since(result.Begun).Round(time.Second).Seconds()
	if err := log.Close(); err != nil {
		return Result{}, fmt.Errorf("failed to write the log of suite %s: %w", suite.Name, err)
	}
	return result, nil
}

// judge notes what came of a command.
func (r *Runner) judge(ctx context.Context, result *Result, arguments []string, err error) {
	switch {
	case err == nil && ctx.Err() == nil:
	case ctx.Err() != nil:
		result.Verdict = Interrupted
	default:
		result.Verdict, result.Why = Failed, fmt.Sprintf("make %s: %v", strings.Join(arguments, " "), err)
	}
}

// Make runs make in the repository, in a process group of its own. When the context ends, the group gets one interrupt,
// so that suites clean up: a second one would end them at once.
func Make(ctx context.Context, repository string, arguments []string, log io.Writer) error {
	// #nosec G204 -- the arguments are those of the table.
	cmd := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory"}, arguments...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = repository, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	return cmd.Run()
}
