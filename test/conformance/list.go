// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// mark is in the name of each conformance spec.
const mark = "[Conformance]"

//go:embed specs.yaml
var pinned []byte

// List says which conformance specs run against a shoot without workers, and why the others of the same groups do not.
type List struct {
	// Kubernetes is the version of k8s.io/kubernetes that has the specs, as in v1.36.4.
	Kubernetes string `json:"kubernetes"`
	// SIGs are the groups whose conformance specs are all named below, as in sig-auth.
	SIGs []string `json:"sigs"`
	// Run are the full names of the specs that run.
	Run []string `json:"run"`
	// Excluded are those that do not run.
	Excluded []Exclusion `json:"excluded"`
}

// Exclusion are specs that do not run for one reason.
type Exclusion struct {
	Reason string   `json:"reason"`
	Specs  []string `json:"specs"`
}

// Pinned returns the list of this repository, specs.yaml.
func Pinned() (*List, error) { return ParseList(pinned) }

// ParseList reads a list. It refuses what is unknown, and a list that does not say one thing of each spec.
func ParseList(content []byte) (*List, error) {
	list := &List{}
	if err := yaml.UnmarshalStrict(content, list); err != nil {
		return nil, fmt.Errorf("failed to read the list of specs: %w", err)
	}
	if err := list.check(); err != nil {
		return nil, fmt.Errorf("the list of specs is wrong: %w", err)
	}
	return list, nil
}

func (l *List) check() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if l.Kubernetes == "" || len(l.SIGs) == 0 || len(l.Run) == 0 {
		add("it needs a version of Kubernetes, groups, and specs that run")
	}
	seen := map[string]bool{}
	look := func(names []string) {
		if !slices.IsSorted(names) {
			add("sort the specs after %q", names[0])
		}
		for _, name := range names {
			if seen[name] {
				add("%q is named twice", name)
			}
			seen[name] = true
			if !l.Concerns(name) {
				add("%q is no conformance spec of %s", name, strings.Join(l.SIGs, ", "))
			}
		}
	}
	look(l.Run)
	for _, exclusion := range l.Excluded {
		if exclusion.Reason == "" || len(exclusion.Specs) == 0 {
			add("each exclusion needs a reason and specs: %+v", exclusion)
		}
		look(exclusion.Specs)
	}
	return errors.Join(errs...)
}

// Concerns reports whether the spec is a conformance spec of one of the groups, so that the list has to name it.
func (l *List) Concerns(name string) bool {
	return strings.Contains(name, mark) &&
		slices.ContainsFunc(l.SIGs, func(sig string) bool { return strings.HasPrefix(name, "["+sig+"] ") })
}

// Covers compares the list with the names of all specs that the binary has. The error names those that the list says
// nothing of, and those that it names and the binary does not have.
func (l *List) Covers(known []string) error {
	named := slices.Clone(l.Run)
	for _, exclusion := range l.Excluded {
		named = append(named, exclusion.Specs...)
	}
	var errs []error
	for _, name := range known {
		if l.Concerns(name) && !slices.Contains(named, name) {
			errs = append(errs, fmt.Errorf("the list says nothing of %q", name))
		}
	}
	for _, name := range named {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("version %s of Kubernetes has no spec %q", l.Kubernetes, name))
		}
	}
	return errors.Join(errs...)
}

// Focus returns the regular expressions that choose the specs that run, and no others. Ginkgo matches them with the
// name of the suite, a space, and the name of the spec.
func (l *List) Focus() []string {
	expressions := make([]string, 0, len(l.Run))
	for _, name := range l.Run {
		expressions = append(expressions, " "+regexp.QuoteMeta(name)+"$")
	}
	return expressions
}
