// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package build provides the binaries the landscape runs: the real components, which hack/build-tools.sh builds once,
// and the project's own, which are built anew on each run (Go's build cache makes that quick).
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/livecpm/livecpm/test/landscape/config"
)

// Tools builds those of the real components that are missing and reports each on out. Without names, they are those of every landscape.
func Tools(ctx context.Context, cfg *config.Config, out io.Writer, components ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(cfg.Repo, "hack", "build-tools.sh"), components...)
	cmd.Env = append(os.Environ(), config.EnvCache+"="+cfg.Cache)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(out, &stderr)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("failed to build the real components: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// Tool returns the folder of a real component's binaries.
func Tool(ctx context.Context, cfg *config.Config, component string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(cfg.Repo, "hack", "build-tools.sh"), "--path", component)
	cmd.Env = append(os.Environ(), config.EnvCache+"="+cfg.Cache)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("failed to find component %q: %w: %s", component, err, strings.TrimSpace(stderr.String()))
	}
	dir := strings.TrimSpace(string(output))
	if _, err := os.Stat(filepath.Join(dir, ".complete")); err != nil {
		return "", fmt.Errorf("failed to find component %q: it has not been built yet (hack/build-tools.sh %s)", component, component)
	}
	return dir, nil
}

// ModuleVersion returns the version of a module that a real component is built from.
func ModuleVersion(ctx context.Context, cfg *config.Config, component, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	cmd.Dir = filepath.Join(cfg.Repo, "hack", "tools", component)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("failed to find version of %s: %w: %s", module, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(output)), nil
}

// Own builds one of the project's commands (a package path relative to the repository) as a static binary below the
// state folder and returns its path. The result depends on the sources only.
func Own(ctx context.Context, cfg *config.Config, name, pkg string) (string, error) {
	file := filepath.Join(cfg.Bin(), name)
	// The go command leaves a result alone that is up to date, and makes a new file otherwise: one that runs is not
	// written to.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, pkg)
	cmd.Dir = cfg.Repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("failed to build %s: %w: %s", pkg, err, strings.TrimSpace(string(output)))
	}
	return file, nil
}

// Fingerprint returns what changes whenever a binary built from the packages would. It compiles, but does not link, which
// is most of the work for a large program that has not changed.
func Fingerprint(ctx context.Context, cfg *config.Config, pkgs ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-trimpath", "-buildvcs=false", "-export", "-deps", "-f", "{{.ImportPath}} {{.BuildID}}"}, pkgs...)...)
	cmd.Dir = cfg.Repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("failed to compile %s: %w: %s", strings.Join(pkgs, ", "), err, strings.TrimSpace(stderr.String()))
	}
	sum := sha256.Sum256(output)
	return hex.EncodeToString(sum[:]), nil
}

// Installed returns the path of a program that the machine has to provide, or an error that names the package.
func Installed(program, debianPackage string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("failed to find %s: install it (Debian package %q): %w", program, debianPackage, err)
	}
	return path, nil
}
