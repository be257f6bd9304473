// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package release runs the suites that .ci/run has no time for, one after another, and keeps the last result of each on
// a page of the repository.
package release

import (
	"fmt"
	"slices"
	"strings"
)

// Suite is what one result is about.
type Suite struct {
	// Name is unique. It has no spaces.
	Name string
	// Title says what is tested, for the page.
	Title string
	// Commands are the arguments of make, one call after the other. The suite has passed if all of them succeed.
	Commands [][]string
	// Label is the label of the landscape's specs that the suite runs; empty if it runs others.
	Label string
}

// landscapeDown takes the landscape down: what it is made of cannot be changed while it is up.
var landscapeDown = []string{"landscape-down"}

// Suites returns all suites, in the order in which they run: first what needs no landscape, then what needs the usual
// one, then the other landscapes.
func Suites() []Suite {
	return []Suite{
		{Name: "search", Title: "every order of events, as far as its bounds go",
			Commands: [][]string{{"test-search"}}},
		{Name: "mutations", Title: "deliberate faults in the product", Commands: [][]string{{"test-mutations"}}},
		{Name: "cli", Title: "a whole migration by `kubectl livecpm` alone", Commands: e2e("cli"), Label: "cli"},
		{Name: "abort", Title: "an abort at each moment at which it is permitted", Commands: e2e("abort"),
			Label: "abort"},
		{Name: "recovery", Title: "losses of a quorum, and the commands of recovery", Commands: e2e("recovery"),
			Label: "recovery"},
		{Name: "drain", Title: "the drain of a seed under load", Commands: e2e("drain"), Label: "drain"},
		{Name: "policies", Title: "whom the NetworkPolicies let in and out", Commands: e2e("policies"),
			Label: "policies"},
		{Name: "planted", Title: "ten faults in the destination, found before step 1", Commands: e2e("planted"),
			Label: "planted"},
		{Name: "conformance", Title: "Kubernetes' own conformance specs while the control plane moves",
			Commands: [][]string{{"test-conformance"}}, Label: "conformance"},
		{Name: "faults", Title: "three migrations with cells of the fault matrix that are stale or were not run",
			Commands: e2e("faults", "MIGRATIONS=3"), Label: "faults"},
		{Name: "drawn", Title: "faults and pairs of faults drawn at random, for an hour",
			Commands: [][]string{{"test-robustness", "HOURS=1"}}, Label: "drawn"},
		{Name: "force-shrink", Title: "a migration with faults that moves the etcds before the kube-apiserver",
			Commands: e2e("faults", "FORCE_SHRINK=true", "MIGRATIONS=1"), Label: "faults"},
		{Name: "workers", Title: "a shoot with workers, there and back", Commands: apart("demo", "SHOOT=workers")},
		{Name: "single", Title: "a shoot with one member in each etcd", Commands: apart("demo", "SHOOT=single")},
		{Name: "single-workers", Title: "a shoot with workers and one member in each etcd, there and back",
			Commands: apart("demo", "SHOOT=single-workers")},
		{Name: "mix", Title: "the drain of a seed with eight shoots of all kinds",
			Commands: apart("test-e2e", "LABELS=mix", "SHOOT=workers"), Label: "mix"},
		{Name: "nodes", Title: "three nodes in each seed, drained, evicted and lost",
			Commands: apart("test-e2e", "LABELS=nodes", "NODES=3"), Label: "nodes"},
		{Name: "upstream-gardenlet", Title: "a migration between seeds with upstream gardenlets",
			Commands: apart("demo", "GARDENLET=upstream")},
		{Name: "drop-in-gardenlet", Title: "a migration between seeds with the drop-in gardenlet",
			Commands: apart("demo", "GARDENLET=drop-in")},
	}
}

// e2e returns the call for the specs with the label on the landscape.
func e2e(label string, variables ...string) [][]string {
	return [][]string{append([]string{"test-e2e", "LABELS=" + label}, variables...)}
}

// apart returns the call with a landscape that is brought up for it alone, and taken down afterwards.
func apart(arguments ...string) [][]string {
	return [][]string{landscapeDown, arguments, landscapeDown}
}

// String returns the commands of the suite for people.
func (s Suite) String() string {
	var calls []string
	for _, arguments := range s.Commands {
		calls = append(calls, "make "+strings.Join(arguments, " "))
	}
	return strings.Join(calls, " && ")
}

// Choose returns the suites that a list with commas names, in their own order; all if it is empty.
func Choose(list string) ([]Suite, error) {
	all := Suites()
	var names, wanted []string
	for _, suite := range all {
		names = append(names, suite.Name)
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no suite %q; there are %s", name, strings.Join(names, ", "))
		}
		wanted = append(wanted, name)
	}
	return slices.DeleteFunc(all, func(suite Suite) bool {
		return len(wanted) > 0 && !slices.Contains(wanted, suite.Name)
	}), nil
}
