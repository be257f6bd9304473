// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command matrix takes the results of the fault suite over into the fault matrix of the repository.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/livecpm/livecpm/test/robustness"
)

func main() {
	repo := flag.String("repo", ".", "root of the repository")
	artifacts := flag.String("artifacts", filepath.Join("_artifacts", "robustness"),
		"folder with the results of the fault suite")
	flag.Parse()
	if err := robustness.Record(*repo, *artifacts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
