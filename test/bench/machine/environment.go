// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/livecpm/livecpm/test/bench/data"
)

// Environment returns what is measured on: the machine, and the versions that the repository pins.
func Environment(ctx context.Context, proc, repo string, now time.Time) (data.Environment, error) {
	e := data.Environment{Time: now.UTC().Truncate(time.Second), Cores: runtime.NumCPU(),
		Versions: map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go")}}
	for file, read := range map[string]func(string){
		"cpuinfo": func(text string) { e.Processor = processor(text) },
		"meminfo": func(text string) {
			e.MemoryGiB = math.Round(10*kibibytes(text, "MemTotal:")/(1<<20)) / 10
		},
		"sys/kernel/osrelease": func(text string) { e.Kernel = strings.TrimSpace(text) },
	} {
		content, err := os.ReadFile(filepath.Join(proc, file))
		if err != nil {
			return data.Environment{}, fmt.Errorf("failed to find out what machine this is: %w", err)
		}
		read(string(content))
	}
	for name, module := range map[string]struct{ file, path string }{
		"Gardener":   {"go.mod", "github.com/gardener/gardener"},
		"Kubernetes": {"hack/tools/kubernetes/go.mod", "k8s.io/kubernetes"},
		"etcd":       {"hack/tools/etcd/go.mod", "go.etcd.io/etcd/server/v3"},
	} {
		version, err := pinned(filepath.Join(repo, module.file), module.path)
		if err != nil {
			return data.Environment{}, err
		}
		e.Versions[name] = version
	}
	var err error
	if e.Commit, err = commit(ctx, repo); err != nil {
		return data.Environment{}, fmt.Errorf("failed to find out the commit: %w", err)
	}
	return e, nil
}

// commit returns what is checked out, with a mark if something of it was changed. The figures and their page do not
// count: the parts that were measured before have just written theirs.
func commit(ctx context.Context, repo string) (string, error) {
	git := func(args ...string) (string, error) {
		output, err := exec.CommandContext(ctx, "git", append([]string{"-C", repo}, args...)...).Output()
		return strings.TrimSpace(string(output)), err
	}
	head, err := git("rev-parse", "--short", "HEAD")
	if err != nil {
		return "", err
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)docs/benchmarks",
		":(exclude)docs/benchmarks.md")
	if err != nil {
		return "", err
	}
	if changed != "" {
		head += "-dirty"
	}
	return head, nil
}

func processor(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return runtime.GOARCH
}

// pinned returns the version of a module that a go.mod requires.
func pinned(file, path string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("failed to read the version of %s: %w", path, err)
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); len(fields) > 1 &&
			fields[0] == path {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("failed to read the version of %s: %s does not require it", path, file)
}
