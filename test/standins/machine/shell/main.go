// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command shell is the sh in the image of the machines' stand-in, for the two scripts that provider-local runs there:
// the probe that asks whether the node has joined, and one that patches the version of the operating system, which the
// stand-in does not have.
package main

import (
	"fmt"
	"os"
	"strings"
)

// joined is the file that the machine's program makes.
const joined = "/run/hollow-node/joined"

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) != 2 || args[0] != "-c" {
		fmt.Fprintf(os.Stderr, "sh: only -c <script> is stood in for, not %q\n", args)
		return 2
	}
	if !strings.Contains(args[1], "/usr/bin/kubectl") {
		return 0
	}
	if _, err := os.Stat(joined); err != nil {
		fmt.Fprintln(os.Stderr, "the node has not joined yet")
		return 1
	}
	return 0
}
