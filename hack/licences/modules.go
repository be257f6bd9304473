// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
)

// module is a module whose code is shipped.
type module struct {
	path, version, folder string
	// packages are the folders of its packages that are shipped.
	packages []string
	licences []string
}

// listed is what go list says about a package.
type listed struct {
	Dir      string
	Standard bool
	Module   *goModule
}

type goModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *goModule
}

// shipped returns the modules that the programs of the repository are made of, but for the repository itself and for
// Go.
func shipped(ctx context.Context, repository string) ([]module, error) {
	modules := map[string]*module{}
	for platform, packages := range platforms {
		var output, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, "go",
			append([]string{"list", "-deps", "-json=Dir,Standard,Module"}, packages...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = repository, &output, &stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform, "GOARCH=amd64")
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("failed to list the packages for %s: %w: %s", platform, err,
				strings.TrimSpace(stderr.String()))
		}
		if err := collect(&output, modules); err != nil {
			return nil, err
		}
	}
	out := make([]module, 0, len(modules))
	for _, m := range modules {
		slices.Sort(m.packages)
		m.packages = slices.Compact(m.packages)
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b module) int { return cmp.Compare(a.path, b.path) })
	return out, nil
}

// collect reads what go list has written.
func collect(from io.Reader, modules map[string]*module) error {
	decoder := json.NewDecoder(from)
	for {
		var pkg listed
		switch err := decoder.Decode(&pkg); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("failed to read what go list has written: %w", err)
		}
		if pkg.Standard || pkg.Module == nil || pkg.Module.Main {
			continue
		}
		source := *pkg.Module
		if source.Replace != nil { // the code is the other one's
			source = *source.Replace
		}
		known := modules[source.Path]
		if known == nil {
			known = &module{path: source.Path, version: source.Version, folder: source.Dir}
			modules[source.Path] = known
		}
		known.packages = append(known.packages, pkg.Dir)
	}
}

var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([-._].*)?$`)

// files returns the licence files that hold for the packages: those at the root of the module and those on the way from
// it to a package, which hold for code that was taken over from others.
func (m *module) files() ([]string, error) {
	folders := map[string]bool{m.folder: true}
	for _, folder := range m.packages {
		for ; folder != m.folder && strings.HasPrefix(folder, m.folder); folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	var out []string
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("failed to read module %s: %w", m.path, err)
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && licenceFile.MatchString(entry.Name()) &&
				filepath.Ext(entry.Name()) != ".go" {
				out = append(out, filepath.Join(folder, entry.Name()))
			}
		}
	}
	return out, nil
}

// matcher tells which licences a text contains.
type matcher interface {
	Match(content []byte) classifier.Results
}

// recognize finds out the licences of the module. Each of its licence files must be recognized, and permitted.
func (m *module) recognize(texts matcher, permitted []string) error {
	files, err := m.files()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("module %s %s has no licence file: it must not be shipped", m.path, m.version)
	}
	for _, file := range files {
		if licence, known := read[m.path][filepath.Base(file)]; known {
			if licence != "" {
				m.licences = append(m.licences, licence)
			}
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("failed to read the licence of module %s: %w", m.path, err)
		}
		found := false
		for _, match := range texts.Match(content).Matches {
			if match.MatchType != "License" {
				continue
			}
			found = true
			if !slices.Contains(permitted, match.Name) {
				return fmt.Errorf("module %s %s has code under %s (%s), which is not permitted: do without it, or "+
					"have the licence agreed to and add it to permitted in hack/licences", m.path, m.version,
					match.Name, file)
			}
			m.licences = append(m.licences, match.Name)
		}
		if !found {
			return fmt.Errorf("module %s %s has a licence that is not recognized: read %s", m.path, m.version, file)
		}
	}
	slices.Sort(m.licences)
	m.licences = slices.Compact(m.licences)
	return nil
}

// render writes the list as a page.
func render(modules []module) string {
	var out strings.Builder
	out.WriteString("# Licences\n\nlivecpm stands under Apache-2.0. These modules are in what it ships: the programs " +
		"of the images, and kubectl-livecpm for all platforms. Written by `make licenses`; `make check` compares it, " +
		"and refuses other licences.\n\n")
	out.WriteString("| module | version | licences |\n| --- | --- | --- |\n")
	for _, m := range modules {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", m.path, m.version, strings.Join(m.licences, ", "))
	}
	return out.String()
}
