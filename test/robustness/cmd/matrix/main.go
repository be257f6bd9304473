// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command matrix takes the results of the fault suite over into the fault matrix of the repository, and finds out which
// of them the code has made stale. With --check it only finds out whether the page says what is so.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/evidence"
)

func main() {
	repo := flag.String("repo", ".", "root of the repository")
	artifacts := flag.String("artifacts", filepath.Join("_artifacts", "robustness"),
		"folder with the results of the fault suite")
	check := flag.Bool("check", false, "write nothing, and fail if the page has to be written again")
	flag.Parse()
	run := func(ctx context.Context) error { return record(ctx, *repo, *artifacts) }
	if *check {
		run = func(ctx context.Context) error { return verify(ctx, *repo) }
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(ctx context.Context, repo, artifacts string) error {
	sources, err := evidence.Load(ctx, repo)
	if err != nil {
		return err
	}
	commit, _, err := evidence.Commit(ctx, repo)
	if err != nil {
		return err
	}
	return robustness.Record(repo, artifacts, sources, robustness.Assessment{Time: time.Now().UTC(), Commit: commit})
}

func verify(ctx context.Context, repo string) error {
	sources, err := evidence.Load(ctx, repo)
	if err != nil {
		return err
	}
	return robustness.Check(repo, sources)
}
