// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

const (
	// EnvConfig is the environment variable with the path of a configuration of kind AgentConfiguration, for those who
	// want other values than the defaults. How to reach the clusters, log and ports are the gardenlet's.
	EnvConfig = "LIVECPM_AGENT_CONFIG"
	// EnvRelayImage is the environment variable with the reference of the relay's image.
	EnvRelayImage = "LIVECPM_RELAY_IMAGE"
)

// gardenletsOwn is in the configuration in the place of what the agent has from the gardenlet in whose process it runs.
const gardenletsOwn = "(the gardenlet's own)"

// Configuration returns the agent's configuration in a gardenlet with the given configuration and environment.
func Configuration(
	gardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration, gardenletConfigFile string,
	getenv func(string) string,
) (*configv1alpha1.AgentConfiguration, error) {
	data := fmt.Appendf(nil, "apiVersion: %s\nkind: AgentConfiguration\n", configv1alpha1.SchemeGroupVersion)
	if file := getenv(EnvConfig); file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil { // #nosec G304 G703 -- the path is the operator's own.
			return nil, fmt.Errorf("failed to read the agent's configuration (environment variable %s): %w", EnvConfig,
				err)
		}
	}
	config, err := configv1alpha1.DecodeWith(data, func(config *configv1alpha1.AgentConfiguration) {
		config.GardenClientConnection.Kubeconfig = gardenletsOwn
		config.SeedClientConnection.Kubeconfig = gardenletsOwn
		config.Gardenlet = configv1alpha1.Gardenlet{ConfigurationFile: gardenletConfigFile}
		if gardenletConfig.LogLevel != "" {
			config.LogLevel = gardenletConfig.LogLevel
		}
		if gardenletConfig.LogFormat != "" {
			config.LogFormat = gardenletConfig.LogFormat
		}
		if image := getenv(EnvRelayImage); image != "" {
			config.Relay.Image = image
		}
	})
	if err != nil {
		return nil, fmt.Errorf("the agent in the gardenlet cannot be configured (environment variables %s and %s): %w",
			EnvRelayImage, EnvConfig, err)
	}
	return config, nil
}
