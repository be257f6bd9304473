// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package bump

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Place is a text in the repository that holds a version. The module files are no places: the go command changes them.
type Place struct {
	// File is its path in the repository.
	File string
	// Before and After are regular expressions for what the version stands between, on one line.
	Before, After string
	// Component is whose version it is.
	Component Component
}

// Places are all of them. The test compares them with the module files.
var Places = []Place{
	{"docs/compatibility.md", `\| this \| `, ` \|`, Gardener},
	{"docs/compatibility.md", `\| this \| \S+ \| `, ` \|`, Druid},
	{"docs/compatibility.md", `\| this \| \S+ \| \S+ \| `, ` \|`, BackupRestore},
	{"docs/compatibility.md", `\| this \| \S+ \| \S+ \| \S+ \| `, ` to `, OldestKubernetes},
	{"docs/compatibility.md", `\| this \| \S+ \| \S+ \| \S+ \| \S+ to `, ` \|`, NewestKubernetes},
	{"docs/deployment/README.md", `\| garden \| Gardener `, `, Kubernetes`, Gardener},
	{"docs/development/landscape.md", `gardener-apiserver `, ` runs with`, Gardener},
	{"examples/gardenlet/gardenlet.yaml", `/gardener/charts/gardenlet:`, `$`, Gardener},
	{"test/integration/framework/objects.go", `GardenletVersion = "`, `"`, Gardener},
}

func (p Place) pattern() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(` + p.Before + `)(v?\d+(?:\.\d+)+[0-9A-Za-z.-]*?)(` + p.After + `)`)
}

// Find returns the version that stands there, which is there once.
func (p Place) Find(content []byte) (string, error) {
	found := p.pattern().FindAllSubmatch(content, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("the version of %s is expected once in %s, behind %q, and found %d times: fix Places "+
			"in hack/bump/places.go", p.Component, p.File, p.Before, len(found))
	}
	return string(found[0][2]), nil
}

// rewrite puts the versions into all places. It returns the files that it has changed.
func rewrite(repository string, versions Versions) ([]string, error) {
	contents, changed := map[string][]byte{}, map[string]bool{}
	var order []string
	for _, place := range Places {
		if _, ok := contents[place.File]; !ok {
			content, err := os.ReadFile(
				filepath.Join(repository, place.File)) // #nosec G304 -- A file of the repository.
			if err != nil {
				return nil, fmt.Errorf("failed to read a place of versions: %w", err)
			}
			contents[place.File] = content
			order = append(order, place.File)
		}
		current, err := place.Find(contents[place.File])
		if err != nil {
			return nil, err
		}
		if version := versions[place.Component]; version != current {
			contents[place.File] = place.pattern().ReplaceAll(contents[place.File], []byte("${1}"+version+"${3}"))
			changed[place.File] = true
		}
	}
	var written []string
	for _, file := range order {
		if !changed[file] {
			continue
		}
		if err := os.WriteFile(filepath.Join(repository, file), contents[file],
			0o644); err != nil { // #nosec G306 -- As all files of the repository.
			return written, fmt.Errorf("failed to write a version: %w", err)
		}
		written = append(written, file)
	}
	return written, nil
}
