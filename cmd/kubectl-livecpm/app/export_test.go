// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// ProbeResult ends a probe with the result, for tests: a load on a shoot takes a shoot.
func ProbeResult(streams Streams, result *probe.Result) exit.Code {
	return exit.Of((&options{Streams: streams}).probeResult("live", result, nil))
}
