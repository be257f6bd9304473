// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// SetZone lets the commands write points in time in the zone.
func SetZone(to *time.Location) { zone = to }

// RunAt runs a command whose time is that of the clock.
func RunAt(ctx context.Context, clock clock.WithTicker, streams Streams, args []string) exit.Code {
	o := newOptions(streams)
	o.clock = clock
	return o.run(ctx, args)
}

// ProbeResult ends a probe with the result, for tests: a load on a shoot takes a shoot.
func ProbeResult(streams Streams, result *probe.Result) exit.Code {
	return exit.Of((&options{Streams: streams}).probeResult("live", result, nil))
}
