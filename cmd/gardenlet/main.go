// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command gardenlet is Gardener's gardenlet with the controllers of livecpm-agent in its process. It takes the same
// flags and the same configuration, and can take the place of the gardenlet's image.
package main

import (
	"github.com/gardener/gardener/cmd/utils"
	"github.com/gardener/gardener/pkg/gardenlet/features"
	"github.com/gardener/gardener/pkg/utils/flow"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livecpm/livecpm/cmd/gardenlet/app"
)

func main() {
	utils.DeduplicateWarnings()
	features.RegisterFeatureGates()
	flow.RegisterMetrics(runtimemetrics.Registry)

	if err := app.NewCommand().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		panic(err) // As the gardenlet does: who reads its logs looks for that.
	}
}
