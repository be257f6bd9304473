// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// DefaultTimeout is how long the specs of one package may take. The longest ones need half a minute on two cores, and a
// spec waits three minutes at most for what never comes (test/patience).
const DefaultTimeout = 8 * time.Minute

// Runner tries mutations. What it writes is in a folder for temporary files, which it removes.
type Runner struct {
	// Root is the root of the module whose files are changed.
	Root string
	// Timeout is how long the specs of one package may take; DefaultTimeout if it is zero.
	Timeout time.Duration
	// Out gets a line for each package that passes without mutations, a line for each mutation, and the table at the
	// end.
	Out io.Writer
}

// errNotCaught says that not every mutation was caught.
var errNotCaught = errors.New("not every mutation was caught: write the missing spec, or adapt the mutation")

// Run proves that the packages pass without any mutation, and tries one mutation after the other. It returns an error
// unless each is caught.
func (r *Runner) Run(ctx context.Context, mutations []Mutation) error {
	if err := r.Prove(ctx, mutations); err != nil {
		return err
	}
	var results []Result
	for _, mutation := range mutations {
		result, err := r.Try(ctx, mutation)
		if err != nil {
			return err
		}
		r.print(describe(result))
		results = append(results, result)
	}
	r.print("\n" + table(results))
	if slices.ContainsFunc(results, func(result Result) bool { return !result.Caught() }) {
		return errNotCaught
	}
	return nil
}

// Prove returns an error unless the specs of all packages of the mutations pass without any of them. Otherwise their
// failures would prove nothing.
func (r *Runner) Prove(ctx context.Context, mutations []Mutation) error {
	var packages []string
	for _, mutation := range mutations {
		packages = append(packages, mutation.Packages...)
	}
	slices.Sort(packages)
	for _, folder := range slices.Compact(packages) {
		trial, err := r.inFolder(func(dir string) (Trial, error) { return r.specs(ctx, dir, folder, "") })
		if err != nil {
			return err
		}
		if trial.Verdict != Survived {
			return fmt.Errorf("the specs of %s do not pass without a mutation (%s): fix them first\n%s",
				folder, trial.Verdict, tail(trial.Output))
		}
		r.print(fmt.Sprintf("passes without mutations: %s (%d specs, %s)", folder, trial.Ran, seconds(trial.Took)))
	}
	return nil
}

// Try runs the specs of the packages of a mutation with the fault in place.
func (r *Runner) Try(ctx context.Context, mutation Mutation) (Result, error) {
	result := Result{Mutation: mutation}
	for _, folder := range mutation.Packages {
		trial, err := r.inFolder(func(dir string) (Trial, error) {
			overlay, err := r.overlay(dir, mutation)
			if err != nil {
				return Trial{}, err
			}
			return r.specs(ctx, dir, folder, overlay)
		})
		if err != nil {
			return Result{}, err
		}
		result.Trials = append(result.Trials, trial)
	}
	return result, nil
}

// inFolder calls the function with a temporary folder of its own.
func (r *Runner) inFolder(try func(dir string) (Trial, error)) (Trial, error) {
	dir, err := os.MkdirTemp("", "livecpm-mutation-")
	if err != nil {
		return Trial{}, fmt.Errorf("failed to make a folder for a mutation: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return try(dir)
}

// overlay writes the changed copy of the file, and what tells the compiler to read it. It returns the path of the
// latter.
func (r *Runner) overlay(dir string, mutation Mutation) (string, error) {
	root, err := filepath.Abs(r.Root)
	if err != nil {
		return "", fmt.Errorf("failed to find the root of the module: %w", err)
	}
	file := filepath.Join(root, filepath.FromSlash(mutation.File))
	source, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("mutation %s: %w", mutation.Name, err)
	}
	changed, err := mutation.Apply(string(source))
	if err != nil {
		return "", err
	}
	replacement, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {file: replacement}})
	if err != nil {
		return "", fmt.Errorf("mutation %s: %w", mutation.Name, err)
	}
	for path, content := range map[string][]byte{replacement: []byte(changed), overlay: content} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", fmt.Errorf("mutation %s: %w", mutation.Name, err)
		}
	}
	return overlay, nil
}

// specs compiles the package, with the overlay unless it is empty, and runs its specs.
func (r *Runner) specs(ctx context.Context, dir, folder, overlay string) (trial Trial, err error) {
	trial.Package = folder
	began := time.Now()
	defer func() { trial.Took = time.Since(began) }()

	binary, report := filepath.Join(dir, "specs.test"), filepath.Join(dir, "report.json")
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	compile := command(ctx, r.Root, "go", append(args, "./"+folder)...)
	if trial.Output, err = output(compile); err != nil {
		trial.Verdict = NotCompiled
		return trial, ctx.Err()
	}
	if _, err := os.Stat(binary); os.IsNotExist(err) {
		trial.Verdict = NothingRan
		return trial, nil
	}

	timeout := r.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// One order of the specs, so that a mutation is all that has changed. The first spec that fails is proof enough:
	// with a fault in the product, many others may wait for what never comes, for minutes each.
	run := command(bounded, filepath.Join(r.Root, filepath.FromSlash(folder)), binary, "-ginkgo.seed=1",
		"-ginkgo.fail-fast", "-ginkgo.no-color", "-ginkgo.json-report="+report)
	var exit error
	trial.Output, exit = output(run)
	switch {
	case ctx.Err() != nil:
		return trial, ctx.Err()
	case bounded.Err() != nil:
		trial.Verdict = TimedOut
		return trial, nil
	}
	return trial, trial.judge(report, exit)
}

// command returns a command that is killed with all that it has started when the context ends.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...) // #nosec G204 -- The compiler, and what it has compiled.
	cmd.Dir = dir
	// Without cgo there is one set of compiled packages, whoever calls.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// output runs the command and returns what it has printed.
func output(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (r *Runner) print(text string) {
	if r.Out != nil {
		_, _ = fmt.Fprintln(r.Out, text)
	}
}
