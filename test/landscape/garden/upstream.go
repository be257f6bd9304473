// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Module is a Go module as the go command knows it.
type Module struct {
	Path, Version, Dir string
}

// FindModule returns version and folder of a module that the go.mod in the folder requires. Charts and versions of the
// real components are read from the modules they are built from, so that there is one place that pins them.
func FindModule(ctx context.Context, dir, module string) (Module, error) {
	// -e: some of the tool modules have requirements that no build needs and nobody can load.
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-e", "-json", module)
	cmd.Dir = dir
	output, err := cmd.Output()
	if err != nil {
		return Module{}, fmt.Errorf("failed to look up module %q in %q: %w", module, dir, err)
	}
	found := Module{}
	if err := json.Unmarshal(output, &found); err != nil {
		return Module{}, fmt.Errorf("failed to read what the go command says of module %q: %w", module, err)
	}
	if found.Version == "" {
		return Module{}, fmt.Errorf("failed to find module %q in %q", module, dir)
	}
	return found, nil
}

// Gardener returns the gardener module that the landscape's components are built from.
func Gardener(ctx context.Context, repo string) (Module, error) {
	return FindModule(ctx, filepath.Join(repo, "hack", "tools", "gardener"), "github.com/gardener/gardener")
}

// Kubernetes returns the Kubernetes module that seeds and shoots are built from.
func Kubernetes(ctx context.Context, repo string) (Module, error) {
	return FindModule(ctx, filepath.Join(repo, "hack", "tools", "kubernetes"), "k8s.io/kubernetes")
}
