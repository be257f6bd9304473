// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package build provides the binaries the landscape runs: the real components, which hack/build-tools.sh builds once,
// and the project's own, which are built again on each run (Go's build cache makes that quick).
package build

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/outlook"
)

// Progress takes how a build gets on.
type Progress struct {
	// Report takes what the build says.
	Report func(format string, args ...any)
	// Count takes how many of the packages that were missing are being compiled or are compiled already.
	Count func(done, total int)
}

// Component builds a real component if it is missing, and tells the progress.
func Component(ctx context.Context, cfg *config.Config, component string, progress Progress) error {
	cmd := tools(ctx, cfg, component)
	log := filepath.Join(cfg.Cache, "logs", component+".log")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("failed to build %s: %w", component, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("failed to build %s: %w", component, err)
	}
	finished := make(chan struct{})
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-finished:
				return
			case <-ticker.C:
				progress.Count(countPackages(log))
			}
		}
	}()
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		if line := scanner.Text(); line != component+": cached" {
			progress.Report("  %s", line)
		}
	}
	err = cmd.Wait()
	close(finished)
	if err != nil {
		return fmt.Errorf("failed to build %s: %w: %s", component, err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// countPackages reads the log of a build: its first line has the number of packages, each other one that says nothing
// else is a package.
func countPackages(log string) (done, total int) {
	content, err := os.ReadFile(log)
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(content)) {
		if number, found := strings.CutPrefix(strings.TrimSpace(line), "packages "); found {
			total, _ = strconv.Atoi(number)
		} else if !strings.HasPrefix(line, "go: ") {
			done++
		}
	}
	return min(done, total), total
}

// Download downloads the modules of those components that are not built yet.
func Download(ctx context.Context, cfg *config.Config, components ...string) error {
	if err := tools(ctx, cfg, append([]string{"--download"}, components...)...).Run(); err != nil {
		return fmt.Errorf("failed to download modules: %w", err)
	}
	return nil
}

// tools is a call of the script that builds real components.
func tools(ctx context.Context, cfg *config.Config, args ...string) *exec.Cmd {
	cmd := outlook.InGroup(exec.CommandContext(ctx, filepath.Join(cfg.Repo, "hack", "build-tools.sh"), args...))
	cmd.Env = append(os.Environ(), config.EnvCache+"="+cfg.Cache)
	return cmd
}

// Tool returns the folder of a real component's binaries, which must be built.
func Tool(ctx context.Context, cfg *config.Config, component string) (string, error) {
	dir, err := ToolFolder(ctx, cfg, component)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, ".complete")); err != nil {
		return "", fmt.Errorf("failed to find component %q: it has not been built yet (hack/build-tools.sh %s)",
			component, component)
	}
	return dir, nil
}

// ToolFolder returns the folder of a real component's binaries, whether or not they are built.
func ToolFolder(ctx context.Context, cfg *config.Config, component string) (string, error) {
	cmd := tools(ctx, cfg, "--path", component)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("failed to find component %q: %w: %s", component, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(output)), nil
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
	return file, Go(ctx, cfg, GoCommand{Name: name, Folder: cfg.Repo,
		Args: []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, pkg}})
}

// GoCommand is a call of the go command that builds something.
type GoCommand struct {
	// Name is what is built, for people and for the name of the log.
	Name string
	// Folder is where the command runs.
	Folder string
	// Env is added to the environment.
	Env []string
	// Args are the arguments.
	Args []string
}

// Go runs a go command. The error has the compiler's last lines and the path of a log with all of them.
func Go(ctx context.Context, cfg *config.Config, command GoCommand) error {
	log := cfg.Dir("logs", "build-"+command.Name+".log")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return fmt.Errorf("failed to make folder for logs: %w", err)
	}
	cmd := outlook.InGroup(exec.CommandContext(ctx, "go", command.Args...))
	cmd.Dir = command.Folder
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), command.Env...)
	return outlook.RunLogged(cmd, command.Name, log, func(string) {})
}

// Fingerprint returns what changes whenever a binary built from the packages would. It compiles, but does not link,
// which is most of the work for a large program that has not changed.
func Fingerprint(ctx context.Context, cfg *config.Config, pkgs ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go",
		append([]string{"list", "-trimpath", "-buildvcs=false", "-export", "-deps", "-f",
			"{{.ImportPath}} {{.BuildID}}"}, pkgs...)...)
	cmd.Dir = cfg.Repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("failed to compile %s: %w: %s", strings.Join(pkgs, ", "), err,
			strings.TrimSpace(stderr.String()))
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
