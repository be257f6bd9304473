// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command placeholder stands in for every program of a seed whose image is not available and whose work nothing on the
// landscape needs: dashboards, metrics, autoscalers. It serves nothing and waits for its end. An admission policy takes
// away the probes and arguments that its containers have for the real program, and tells those that are run before
// others to end at once.
package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"
)

func main() {
	end := flag.Bool("end", false, "end at once instead of waiting for a signal: for init containers")
	flag.Parse()
	if *end {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	<-ctx.Done()
}
