// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package found

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Spec is a spec that a page names, be it an It or an Entry or all of a table.
type Spec struct {
	// Folder is that of its package, below the repository.
	Folder string
	// Text is its text.
	Text string
}

var (
	specsOf = regexp.MustCompile("`([a-z/]+)`: (\"[^\"]+\"(?:, \"[^\"]+\")*)")
	quoted  = regexp.MustCompile(`"([^"]+)"`)
	// sum are the ends of two texts that a long one consists of.
	sum = regexp.MustCompile(`" ?\+\n\s*"`)
)

// SpecsIn returns the specs that a text names: the folder of the package in backquotes, a colon, and the texts in
// quotes. Everything that is written like a folder and a colon has to name specs.
func SpecsIn(text string) ([]Spec, error) {
	named := specsOf.FindAllStringSubmatch(text, -1)
	if written := strings.Count(text, "`: "); len(named) != written {
		return nil, fmt.Errorf("%d of %d packages have specs in quotes: %s", len(named), written, text)
	}
	var specs []Spec
	for _, group := range named {
		for _, spec := range quoted.FindAllStringSubmatch(group[2], -1) {
			specs = append(specs, Spec{Folder: group[1], Text: spec[1]})
		}
	}
	return specs, nil
}

// Check returns an error if the spec is not where it says.
func (s Spec) Check(repository string) error {
	files, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(s.Folder), "*_test.go"))
	if err != nil {
		return fmt.Errorf("failed to look for the tests of %s: %w", s.Folder, err)
	}
	written := regexp.MustCompile(`\b(It|Entry|DescribeTable)\(\s*(fmt\.Sprintf\(\s*)?` +
		regexp.QuoteMeta(`"`+s.Text+`"`))
	for _, file := range files {
		content, err := os.ReadFile(file) // #nosec G304 -- a file of this repository.
		if err != nil {
			return fmt.Errorf("failed to look for the specs of %s: %w", s.Folder, err)
		}
		if written.MatchString(sum.ReplaceAllString(string(content), "")) {
			return nil
		}
	}
	return fmt.Errorf("%s has no spec %q", s.Folder, s.Text)
}
