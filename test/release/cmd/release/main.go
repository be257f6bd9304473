// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command release runs the suites that .ci/run has no time for, and records their results.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/test/release"
	"github.com/livecpm/livecpm/test/robustness/evidence"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test-release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	repository := flag.String("repo", ".", "root of the repository")
	names := flag.String("suites", "", "suites to run, separated by commas; empty for all")
	list := flag.Bool("list", false, "print the commands, and run none")
	page := flag.Bool("page", false, "write the page of the results that there are, and run nothing")
	flag.Parse()
	if *page {
		results, err := release.Read(*repository)
		if err != nil {
			return err
		}
		return release.Write(*repository, results)
	}
	suites, err := release.Choose(*names)
	if err != nil {
		return err
	}
	if *list {
		for _, suite := range suites {
			fmt.Printf("%-20s %s\n", suite.Name, suite)
		}
		return nil
	}
	runner := &release.Runner{Repository: *repository, Make: release.Make, Commit: evidence.Commit,
		Clock: clock.RealClock{}, Out: os.Stdout}
	return runner.Run(ctx, suites)
}
