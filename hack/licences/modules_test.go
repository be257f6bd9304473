// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// words finds the licences whose names stand in a text.
type words []string

func (w words) Match(content []byte) classifier.Results {
	var out classifier.Results
	for _, name := range w {
		if strings.Contains(string(content), name) {
			out.Matches = append(out.Matches, &classifier.Match{Name: name, MatchType: "License"})
		}
	}
	return out
}

// folder makes a module of files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRecognize(t *testing.T) {
	for name, test := range map[string]struct {
		files    map[string]string
		packages []string
		licences []string
		problem  string
	}{
		"one licence": {files: map[string]string{"LICENSE": "MIT"}, licences: []string{"MIT"}},
		"two in one file": {files: map[string]string{"LICENSE.md": "MIT and Apache-2.0"},
			licences: []string{"Apache-2.0", "MIT"}},
		"other names of the file": {files: map[string]string{"COPYING": "MIT", "LICENCE-APACHE": "Apache-2.0"},
			licences: []string{"Apache-2.0", "MIT"}},
		"code taken over from others": {files: map[string]string{"LICENSE": "MIT", "third/LICENSE": "Apache-2.0",
			"third/deep/x.go": ""}, packages: []string{"third/deep"}, licences: []string{"Apache-2.0", "MIT"}},
		"code of others that is not used": {files: map[string]string{"LICENSE": "MIT", "third/LICENSE": "GPL-3.0"},
			packages: []string{"."}, licences: []string{"MIT"}},
		"source files are no licences": {files: map[string]string{"LICENSE": "MIT", "license.go": "GPL-3.0"},
			licences: []string{"MIT"}},
		"not permitted": {files: map[string]string{"LICENSE": "GPL-3.0"},
			problem: "code under GPL-3.0"},
		"not permitted below": {files: map[string]string{"LICENSE": "MIT", "third/COPYING": "GPL-3.0"},
			packages: []string{"third"}, problem: "code under GPL-3.0"},
		"not recognized": {files: map[string]string{"LICENSE": "do what you want"},
			problem: "not recognized"},
		"none": {files: map[string]string{"README.md": "MIT"},
			problem: "has no licence file"},
	} {
		t.Run(name, func(t *testing.T) {
			root := folder(t, test.files)
			m := module{path: "example.com/module", version: "v1.0.0", folder: root}
			for _, pkg := range test.packages {
				m.packages = append(m.packages, filepath.Join(root, pkg))
			}
			err := m.recognize(words{"MIT", "Apache-2.0", "GPL-3.0"}, []string{"MIT", "Apache-2.0"})
			switch {
			case test.problem == "" && err != nil:
				t.Errorf("failed: %v", err)
			case test.problem != "" &&
				(err == nil || !strings.Contains(err.Error(), test.problem) ||
					!strings.Contains(err.Error(), "example.com/module v1.0.0")):
				t.Errorf("expected %q, got %v", test.problem, err)
			case test.problem == "" && !slices.Equal(m.licences, test.licences):
				t.Errorf("expected %v, got %v", test.licences, m.licences)
			}
		})
	}
}

func TestRead(t *testing.T) {
	m := module{path: "github.com/opencontainers/go-digest",
		folder: folder(t, map[string]string{"LICENSE": "MIT", "LICENSE.docs": "GPL-3.0"})}
	if err := m.recognize(words{"MIT", "GPL-3.0"}, []string{"MIT"}); err != nil ||
		!slices.Equal(m.licences, []string{"MIT"}) {
		t.Errorf("the licence of the documentation counts: %v, %v", m.licences, err)
	}
	for path, files := range read {
		for file, licence := range files {
			if licence != "" && !slices.Contains(permitted, licence) {
				t.Errorf("%s of %s is under %s, which is not permitted", file, path, licence)
			}
		}
	}
}

func TestCollect(t *testing.T) {
	modules := map[string]*module{}
	if err := collect(strings.NewReader(`
		{"Dir": "/go/src/fmt", "Standard": true}
		{"Dir": "/repository/cmd", "Module": {"Path": "example.com/own", "Main": true}}
		{"Dir": "/cache/a/x", "Module": {"Path": "example.com/a", "Version": "v1.0.0", "Dir": "/cache/a"}}
		{"Dir": "/cache/a/y", "Module": {"Path": "example.com/a", "Version": "v1.0.0", "Dir": "/cache/a"}}
		{"Dir": "/cache/fork", "Module": {"Path": "example.com/b", "Version": "v1.0.0",
			"Replace": {"Path": "example.com/fork", "Version": "v2.0.0", "Dir": "/cache/fork"}}}
	`), modules); err != nil {
		t.Fatal(err)
	}
	if len(modules) != 2 || len(modules["example.com/a"].packages) != 2 ||
		modules["example.com/fork"].version != "v2.0.0" {
		t.Errorf("collected %v", modules)
	}
	if err := collect(strings.NewReader(`{"Dir": `), modules); err == nil {
		t.Error("half an answer was accepted")
	}
}

// TestOwnLicence sees to it that the texts are recognized at all.
func TestOwnLicence(t *testing.T) {
	texts, err := assets.DefaultClassifier()
	if err != nil {
		t.Fatal(err)
	}
	m := module{path: "own", folder: filepath.Join("..", "..")}
	if err := m.recognize(texts, permitted); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.licences, []string{"Apache-2.0"}) {
		t.Errorf("livecpm is under %v", m.licences)
	}
}

func TestRender(t *testing.T) {
	page := render([]module{{path: "example.com/a", version: "v1.0.0", licences: []string{"Apache-2.0", "MIT"}}})
	if !strings.Contains(page, "| example.com/a | v1.0.0 | Apache-2.0, MIT |\n") {
		t.Error(page)
	}
}
