// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

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
