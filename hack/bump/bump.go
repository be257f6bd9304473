// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package bump moves the repository to another version of Gardener, and to the etcd-druid and etcd-backup-restore that
// belong to it: the module files of livecpm and of the landscape's real components, and the texts that hold a version.
package bump

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// Options tell what to do.
type Options struct {
	// Repository is the folder of the repository.
	Repository string
	// Version is the version of Gardener to move to.
	Version string
	// Go runs the go command.
	Go Go
	// Out gets a line for each thing that happens.
	Out io.Writer
}

// Run moves the repository. It finds out what belongs to the version before it changes anything.
func Run(ctx context.Context, options Options) error {
	if !semantic.MatchString(options.Version) {
		return fmt.Errorf("the version is %q, expected one as in v1.150.0", options.Version)
	}
	versions, err := Resolve(ctx, options.Go, options.Repository, options.Version)
	if err != nil {
		return err
	}
	fmt.Fprintf(options.Out, "Gardener %s has etcd-druid %s, etcd-backup-restore %s, and Kubernetes %s to %s.\n",
		versions[Gardener], versions[Druid], versions[BackupRestore], versions[OldestKubernetes],
		versions[NewestKubernetes])

	for _, command := range commands(versions) {
		fmt.Fprintf(options.Out, "%s: go %s\n", command.dir, strings.Join(command.args, " "))
		if output, err := options.Go(ctx, filepath.Join(options.Repository, command.dir), command.args...); err != nil {
			return fmt.Errorf("failed to move the module in %s: %w: %s", command.dir, err, strings.TrimSpace(output))
		}
	}
	written, err := rewrite(options.Repository, versions)
	for _, file := range written {
		fmt.Fprintln(options.Out, "changed", file)
	}
	if err != nil {
		return err
	}

	fmt.Fprintln(options.Out, "go vet ./...")
	if output, err := options.Go(ctx, options.Repository, "vet", "./..."); err != nil {
		return fmt.Errorf("the repository is moved, but does not compile with Gardener %s: %w\n%s", options.Version,
			err, strings.TrimSpace(output))
	}
	fmt.Fprintln(options.Out, "It compiles. Do the rest by hand, as docs/development/releasing.md says.")
	return nil
}

// command is one call of the go command.
type command struct {
	dir  string
	args []string
}

// commands are the calls that move the module files, in their order.
func commands(versions Versions) []command {
	gardener := []string{gardenerModule + "@" + versions[Gardener], apisModule + "@" + versions[Gardener],
		druidAPIModule + "@" + versions[Druid]}
	tool := func(component string) string { return "hack/tools/" + component }
	return []command{
		{".", append([]string{"get"}, gardener...)},
		{".", []string{"mod", "tidy"}},
		{tool("gardener"), append([]string{"get"}, gardener...)},
		{tool("gardener"), []string{"mod", "tidy"}},
		// etcd-druid requires its own API by a replacement that does not reach those who require etcd-druid.
		{tool("etcd-druid"),
			[]string{"mod", "edit", "-replace=" + druidAPIModule + "=" + druidAPIModule + "@" + versions[Druid]}},
		{tool("etcd-druid"), []string{"get", druidModule + "@" + versions[Druid]}},
		{tool("etcd-druid"), []string{"mod", "tidy"}},
		{tool("etcd-backup-restore"), []string{"get", backupRestoreModule + "@" + versions[BackupRestore]}},
		{tool("etcd-backup-restore"), []string{"mod", "tidy"}},
	}
}

// GoCommand is the go command of this machine.
func GoCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) // #nosec G204 -- The arguments are the program's own.
	cmd.Dir = dir
	// The tools have modules of their own, which a workspace or a vendor folder of somebody else must not change.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var output, failures strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &failures
	if err := cmd.Run(); err != nil {
		return output.String() + failures.String(), err
	}
	return output.String(), nil
}
