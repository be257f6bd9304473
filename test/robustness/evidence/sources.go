// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// module is the path of the product's module, product the folder of its packages.
const (
	module  = "github.com/livecpm/livecpm"
	product = "pkg"
)

// always are the packages that each step uses, whoever owns it: the frame of the agents, what puts their rooms
// together, the checks before a step, and the relays.
var always = []string{"pkg/agent", "pkg/preflight", "pkg/tunnel/relay"}

// assembly puts both roles together. It counts for each step, and what it imports does not: it imports both roles.
const assembly = "pkg/agent/setup"

// RootsOf returns the packages in which a step begins: that of each role that does work in it, and what each step uses.
// The result is sorted, and without what the packages import.
func RootsOf(step steps.Step) []string {
	roots := slices.Clone(always)
	roots = append(roots, "pkg/agent/"+string(step.Owner))
	for _, work := range step.Work {
		roots = append(roots, "pkg/agent/"+string(work.By))
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

// Sources are the packages of the product as they are on disk.
type Sources struct {
	digests map[string]string
	deps    map[string][]string
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	EmbedFiles []string
	OtherFiles []string `json:"SFiles"`
	Deps       []string
}

// Load reads the packages of the product in the repository, and which of them each one imports, by go list -deps.
func Load(ctx context.Context, repository string) (*Sources, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "list", "-deps",
		"-json=ImportPath,Dir,GoFiles,CgoFiles,EmbedFiles,SFiles,Deps", "./"+product+"/...")
	cmd.Dir, cmd.Stdout, cmd.Stderr = repository, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("failed to list the packages of the product: %w: %s", err,
			strings.TrimSpace(stderr.String()))
	}
	sources := &Sources{digests: map[string]string{}, deps: map[string][]string{}}
	for decoder := json.NewDecoder(&stdout); ; {
		var pkg listed
		switch err := decoder.Decode(&pkg); {
		case errors.Is(err, io.EOF):
			return sources, nil
		case err != nil:
			return nil, fmt.Errorf("failed to read the list of packages: %w", err)
		}
		path, ours := ofProduct(pkg.ImportPath)
		if !ours {
			continue
		}
		digest, err := pkg.digest()
		if err != nil {
			return nil, err
		}
		sources.digests[path] = digest
		for _, dep := range pkg.Deps {
			if other, ours := ofProduct(dep); ours {
				sources.deps[path] = append(sources.deps[path], other)
			}
		}
	}
}

// ofProduct returns the path of a package from the root of the repository, if it is one of the product.
func ofProduct(importPath string) (string, bool) {
	path, ours := strings.CutPrefix(importPath, module+"/")
	return path, ours && strings.HasPrefix(path, product+"/")
}

// digest covers the names and the content of all files that the package is compiled from.
func (p listed) digest() (string, error) {
	names := slices.Concat(p.GoFiles, p.CgoFiles, p.EmbedFiles, p.OtherFiles)
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		content, err := file(filepath.Join(p.Dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %s\n", name, content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Digests returns the SHA-256 of each package's source. The caller owns the map.
func (s *Sources) Digests() map[string]string { return maps.Clone(s.digests) }

// UsedBy returns the packages of the product that a step uses: its roots with all that they import, and the assembly of
// the agents. They are sorted. It fails if a root is none of the packages: the step would seem to use nothing.
func (s *Sources) UsedBy(step steps.Step) ([]string, error) {
	used := []string{assembly}
	for _, root := range RootsOf(step) {
		if _, known := s.digests[root]; !known {
			return nil, fmt.Errorf("step %s uses %s, which is no package of the product", step, root)
		}
		used = append(append(used, root), s.deps[root]...)
	}
	slices.Sort(used)
	return slices.Compact(used), nil
}

// Stale returns why a result of the step that was made with the build says nothing of the sources; empty if it still
// does. A result of which nobody knows what it was made with is stale.
func (s *Sources) Stale(build *Build, step steps.Step) (string, error) {
	if build == nil || len(build.Packages) == 0 {
		return "nobody has recorded what it was made with", nil
	}
	used, err := s.UsedBy(step)
	if err != nil {
		return "", err
	}
	var changed []string
	for _, path := range used {
		if s.digests[path] == "" || build.Packages[path] != s.digests[path] {
			changed = append(changed, path)
		}
	}
	switch len(changed) {
	case 0:
		return "", nil
	case 1:
		return changed[0] + " has changed since", nil
	}
	return fmt.Sprintf("%s and %d more packages have changed since", changed[0], len(changed)-1), nil
}
