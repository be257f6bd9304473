// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command simagent is an agent for the benchmarks that does nothing in its seed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/test/bench/simagent"
)

func main() {
	options := simagent.Options{}
	flag.StringVar(&options.Garden, "garden", "", "kubeconfig of the garden")
	flag.StringVar(&options.Seed, "seed", "", "kubeconfig of the seed")
	flag.StringVar(&options.SeedName, "seed-name", "", "name of the seed")
	flag.StringVar(&options.Version, "version", "", "Gardener version that the agent is built with")
	flag.IntVar(&options.HealthPort, "health-port", 0, "port of the probes")
	flag.IntVar(&options.MetricsPort, "metrics-port", 0, "port of the metrics")
	flag.StringVar(&options.GoFile, "go-file", "", "file without which no first step is finished")
	flag.DurationVar(&options.Pace, "pace", 0, "how long a step takes")
	flag.Parse()
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
