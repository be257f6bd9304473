// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command simrelay is a relay for the benchmarks, which may have any target.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/livecpm/livecpm/test/bench/relaybench"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "simrelay: exactly one argument is needed, the path of the configuration")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := relaybench.Serve(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "simrelay:", err)
		stop()
		os.Exit(1)
	}
}
