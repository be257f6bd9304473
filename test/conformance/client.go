// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/livecpm/livecpm/test/landscape/process"
	"github.com/livecpm/livecpm/test/outlook"
)

const (
	// roundLimit bounds a round: Ginkgo interrupts it then, which fails the round.
	roundLimit = 45 * time.Minute
	// listLimit bounds the question which specs there are.
	listLimit = 2 * time.Minute

	reportFile, logFile = "report.json", "e2e.log"
)

// Binaries are the programs that a round consists of (hack/build-tools.sh kubernetes-e2e kubectl).
type Binaries struct {
	// Ginkgo runs E2E, the tests of k8s.io/kubernetes/test/e2e, in several processes. Some specs call Kubectl.
	Ginkgo, E2E, Kubectl string
}

// Client runs the specs of the list.
type Client struct {
	Binaries Binaries
	List     *List
	// Kubeconfig is the file with the access to the API server.
	Kubeconfig string
	// Resolv is a file like /etc/resolv.conf that the programs get in place of the machine's, which needs root. If it
	// is empty, they have the machine's.
	Resolv string
	// Processes is how many specs run at the same time. Those that Kubernetes marks as serial run alone.
	Processes int
	// Folder takes the report and the log of each round.
	Folder string
}

// Known returns the names of all specs that the binary has. It needs no API server.
func (c *Client) Known(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	folder, err := c.folder("specs")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, reportFile)
	command := []string{c.Binaries.E2E, "--ginkgo.dry-run", "--ginkgo.focus=" + `\[Conformance\]`,
		"--ginkgo.json-report=" + file}
	if err := run(ctx, command, filepath.Join(folder, logFile)); err != nil {
		return nil, fmt.Errorf("failed to ask which specs there are: %w", err)
	}
	runs, _, err := readReport(file)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(runs))
	for _, run := range runs {
		names = append(names, run.Spec)
	}
	return names, nil
}

// Round runs each spec of the list once, in the order that the seed gives. Specs that fail are no error, and neither
// are rounds that end without a report: they are in what it returns. The error is that the round could not begin, or
// that the context ended. No process is left then.
func (c *Client) Round(ctx context.Context, number int, seed int64) (*Round, error) {
	folder, err := c.folder(fmt.Sprintf("round-%02d", number))
	if err != nil {
		return nil, err
	}
	log := filepath.Join(folder, logFile)
	round := &Round{Number: number, Seed: seed, Begin: time.Now()}
	err = run(ctx, c.command(folder, seed), log)
	round.End = time.Now()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("failed to run round %d: %w", number, err)
	}
	runs, problems, readErr := readReport(filepath.Join(folder, reportFile))
	round.Runs, round.Problems = runs, problems
	if readErr != nil {
		round.Problems = append(round.Problems,
			fmt.Sprintf("%v; the programs ended with %v, and said last:\n%s", readErr, err, process.Tail(log, 15)))
	} else if err != nil && round.good() {
		round.Problems = append(round.Problems, fmt.Sprintf("all specs passed, and the programs ended with %v", err))
	}
	return round, nil
}

// good reports whether nothing is known that failed.
func (r *Round) good() bool {
	for _, run := range r.Runs {
		if !run.Passed {
			return false
		}
	}
	return len(r.Problems) == 0
}

// folder makes an empty folder for a round.
func (c *Client) folder(name string) (string, error) {
	folder := filepath.Join(c.Folder, name)
	if err := os.RemoveAll(folder); err != nil {
		return "", fmt.Errorf("failed to remove what an earlier run has left: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("failed to make folder for the specs: %w", err)
	}
	return folder, nil
}

// command is what runs a round.
func (c *Client) command(folder string, seed int64) []string {
	command := []string{c.Binaries.Ginkgo, "--no-color", "--silence-skips", "--randomize-all",
		fmt.Sprintf("--seed=%d", seed), fmt.Sprintf("--procs=%d", c.Processes), "--timeout=" + roundLimit.String(),
		"--json-report=" + reportFile, "--output-dir=" + folder}
	for _, expression := range c.List.Focus() {
		command = append(command, "--focus="+expression)
	}
	command = append(command, c.Binaries.E2E, "--", "--kubeconfig="+c.Kubeconfig, "--kubectl-path="+c.Binaries.Kubectl,
		"--provider=skeleton",
		// Nothing is gathered from nodes and pods after a failure.
		"--disable-log-dump=true", "--dump-logs-on-failure=false")
	if c.Resolv == "" {
		return command
	}
	return append(resolvingBy(c.Resolv), command...)
}

// resolvingBy begins a command whose program finds the file at /etc/resolv.conf, in a mount namespace of its own. The
// process stays the same, so that it can be ended.
func resolvingBy(file string) []string {
	return []string{"unshare", "--mount", "--propagation", "private", "sh", "-ec",
		`mount --bind "$0" /etc/resolv.conf; exec "$@"`, file}
}

// run runs a command to its end, with its output in the log. It ends with everything that it has started when the
// context does.
func run(ctx context.Context, command []string, log string) error {
	file, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("failed to make log: %w", err)
	}
	defer file.Close()
	cmd := outlook.InGroup(exec.CommandContext(ctx, command[0], command[1:]...))
	cmd.Stdout, cmd.Stderr = file, file
	return cmd.Run()
}
