// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-livecpm is a plugin of kubectl: it plans, starts, shows and steers live migrations.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc/grpclog"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
)

func main() {
	// gRPC reports every attempt to connect that failed, across the picture. Its logger must be set before anything
	// else uses gRPC, so this is the place.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first interrupt ends a command in an orderly way, which may take a while; a second one ends it at once.
	context.AfterFunc(ctx, stop)
	code := app.Run(ctx, app.Streams{Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(int(code))
}
