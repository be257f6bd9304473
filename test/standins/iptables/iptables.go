// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package iptables adds rules to the network namespace of the process, by Debian's iptables. Stand-ins use it that run
// in images of their own.
package iptables

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// folder is where Debian has the programs.
const folder = "/usr/sbin/"

// Tables are those of one family of addresses.
type Tables struct{ program string }

// Find returns the tables for IPv4 and IPv6: those of the older interface of the kernel if it has them, else those of
// nftables.
func Find() (v4, v6 Tables, err error) {
	var tried []error
	for _, kind := range []string{"legacy", "nft"} {
		v4, v6 = Tables{folder + "iptables-" + kind}, Tables{folder + "ip6tables-" + kind}
		if err := errors.Join(v4.run("-L"), v6.run("-L")); err != nil {
			tried = append(tried, err)
			continue
		}
		return v4, v6, nil
	}
	return Tables{}, Tables{}, fmt.Errorf("failed to find iptables that work: %w", errors.Join(tried...))
}

// Append adds a rule to the end of a chain.
func (t Tables) Append(table, chain string, spec ...string) error {
	return t.change("-A", table, chain, spec)
}

// AppendOnce adds a rule to the end of a chain that does not have it.
func (t Tables) AppendOnce(table, chain string, spec ...string) error {
	if t.has(table, chain, spec) {
		return nil
	}
	return t.Append(table, chain, spec...)
}

// Delete removes a rule if it is there.
func (t Tables) Delete(table, chain string, spec ...string) error {
	if !t.has(table, chain, spec) {
		return nil
	}
	return t.change("-D", table, chain, spec)
}

func (t Tables) has(table, chain string, spec []string) bool {
	return t.change("-C", table, chain, spec) == nil
}

func (t Tables) change(what, table, chain string, spec []string) error {
	return t.run(slices.Concat([]string{"-t", table, what, chain}, spec)...)
}

func (t Tables) run(args ...string) error {
	// They wait for each other: several of them at once are refused otherwise.
	// #nosec G204 -- The program's own arguments.
	cmd := exec.Command(t.program, append([]string{"--wait"}, args...)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("failed to run %s: %w: %s", strings.Join(cmd.Args, " "), err,
			strings.TrimSpace(string(output)))
	}
	return nil
}
