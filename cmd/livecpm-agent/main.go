// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command livecpm-agent runs in a seed beside the gardenlet and does that seed's part in live migrations, as the source
// or as the destination.
package main

import (
	"fmt"
	"os"

	"github.com/gardener/gardener/cmd/utils"
	"github.com/gardener/gardener/pkg/gardenlet/features"
	"github.com/gardener/gardener/pkg/utils/flow"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livecpm/livecpm/cmd/livecpm-agent/app"
)

func main() {
	utils.DeduplicateWarnings()
	features.RegisterFeatureGates()
	flow.RegisterMetrics(runtimemetrics.Registry)

	if err := app.NewCommand().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", app.Name, err)
		os.Exit(1)
	}
}
