// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/outlook"
)

// Parts is parts for tests.
func Parts(cfg *config.Config) []outlook.Part { return parts(cfg) }

// PhaseNames are the names of what Up can run.
func PhaseNames(cfg *config.Config) []string {
	return slices.Sorted(maps.Keys(New(cfg, io.Discard).phases()))
}

// RunPhases runs phases as Up does.
func RunPhases(ctx context.Context, parts []outlook.Part, phases map[string]func(context.Context) error) error {
	return New(&config.Config{}, io.Discard).run(ctx, parts, phases)
}

// What installs livecpm, for tests.
var (
	GardenChartValues  = gardenChartValues
	AgentRegistration  = agentRegistration
	CheckAgent         = checkAgent
	CheckDropIn        = checkDropIn
	CheckInstallation  = checkInstallation
	RemoveForeignAgent = removeForeignAgent
	SeedCommands       = seedCommands
)

// FingerprintAnnotation is at the agent's pods.
const FingerprintAnnotation = fingerprintAnnotation
