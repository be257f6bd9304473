// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

// PackChart is packChart for tests.
var PackChart = packChart

// GardenManifest and ControllerManagerConfig are templates.
var GardenManifest, ControllerManagerConfig = gardenManifest, controllerManagerConfig

// LivecpmConfig is the template of the configuration of livecpm-controller-manager.
var LivecpmConfig = livecpmConfig

// RemoveLeftovers is removeLeftovers for tests.
var RemoveLeftovers = removeLeftovers
