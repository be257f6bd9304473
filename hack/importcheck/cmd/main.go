// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command importcheck prints the imports that the rules of package importcheck forbid.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/livecpm/livecpm/hack/importcheck"
)

func main() {
	packages, err := importcheck.Load(context.Background(), ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "importcheck:", err)
		os.Exit(2)
	}
	violations := importcheck.Check(packages, importcheck.Rules)
	for _, violation := range violations {
		fmt.Println(violation)
	}
	if len(violations) > 0 {
		os.Exit(1)
	}
	fmt.Printf("importcheck: %d packages, %d rules, no violation\n", len(packages), len(importcheck.Rules))
}
