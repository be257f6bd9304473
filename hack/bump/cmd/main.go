// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command cmd moves the repository to another version of Gardener.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/livecpm/livecpm/hack/bump"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	options := bump.Options{Go: bump.GoCommand, Out: os.Stdout}
	flag.StringVar(&options.Repository, "repository", ".", "folder of the repository")
	flag.Parse()
	options.Version = flag.Arg(0)
	if err := bump.Run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "bump-gardener:", err)
		os.Exit(1)
	}
}
