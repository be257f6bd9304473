// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command simagent is an agent for the benchmarks that does nothing in its seed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/test/bench/simagent"
)

func main() {
	options, err := simagent.Parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "simagent:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := zap.New(zap.WriteTo(os.Stderr))
	log.SetLogger(logger)
	if err := simagent.Run(ctx, logger, options); err != nil {
		fmt.Fprintln(os.Stderr, "simagent:", err)
		stop()
		os.Exit(1)
	}
}
