// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package mutations puts deliberate faults into the product, one after the other, and finds out whether the specs
// notice each of them. A fault that no spec notices is a rule of the product that could be lost, and nobody would know.
//
// Nothing in the work tree changes: the compiler is told to read a changed copy in the place of one file (go test
// -overlay).
package mutations

import (
	"fmt"
	"regexp"
	"strings"
)

// Area is a part of the product. The page has a heading for each.
type Area string

// The areas, in the order of the page.
const (
	// Projections decide whether a change of an etcd's membership may be made.
	Projections Area = "What is projected before a change of the membership"
	// Members are what joins, moves and retires members.
	Members Area = "How members join and leave"
	// Steps are their order, who writes what, and the way back.
	Steps Area = "Steps, conditions and the way back"
	// Frame is what an agent does around every action.
	Frame Area = "Whose turn it is, and whether it may act"
	// Source is the part of the source.
	Source Area = "What the source does"
	// Destination is the part of the destination.
	Destination Area = "What the destination does"
	// Checks are guards before a step and the drain of seeds.
	Checks Area = "Guards and the drain"
)

// Areas returns all areas in the order of the page. The caller owns the returned slice.
func Areas() []Area {
	return []Area{Projections, Members, Steps, Frame, Source, Destination, Checks}
}

// Mutation is one deliberate fault: a text in one file of the product that is replaced by another one.
type Mutation struct {
	// Name identifies the mutation, in words with dashes between them.
	Name string
	// Area is the part of the product that it is about.
	Area Area
	// Harm says what an operator would see go wrong, as a sentence without a period.
	Harm string
	// File is the changed file, with slashes, from the root of the repository.
	File string
	// Old is the text that is replaced. It must occur exactly once in the file.
	Old string
	// New is what takes its place. The file has to compile with it.
	New string
	// Packages are the folders, from the root of the repository, of the packages whose specs must notice it, each by
	// itself.
	Packages []string
}

// Apply returns the source of the file with the fault in it. It fails unless the old text is there exactly once: the
// mutation has to follow the file then.
func (m Mutation) Apply(source string) (string, error) {
	if found := strings.Count(source, m.Old); found != 1 {
		return "", fmt.Errorf("mutation %s: its old text occurs %d times in %s, not once: adapt the mutation to it",
			m.Name, found, m.File)
	}
	return strings.Replace(source, m.Old, m.New, 1), nil
}

// Focus returns those mutations whose names match the regular expression. It fails if there is none.
func Focus(all []Mutation, expression string) ([]Mutation, error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("failed to read the focus %q as a regular expression: %w", expression, err)
	}
	var chosen []Mutation
	for _, mutation := range all {
		if match.MatchString(mutation.Name) {
			chosen = append(chosen, mutation)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mutation has a name that matches %q: see docs/development/mutations.md", expression)
	}
	return chosen, nil
}
