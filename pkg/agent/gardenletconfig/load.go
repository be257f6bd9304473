// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenletconfig

import (
	"errors"
	"fmt"
	"os"

	gardenletvalidation "github.com/gardener/gardener/pkg/api/config/gardenlet/v1alpha1/validation"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencore "github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/features"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Load reads the configuration of the gardenlet beside the agent and sets its feature gates in this
// process: components that depend on a gate must come out as the gardenlet would deploy them. The gates must have been
// registered before. The configuration is read as the gardenlet itself does, without strictness.
func Load(path string) (*gardenletconfigv1alpha1.GardenletConfiguration, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{gardenletconfigv1alpha1.AddToScheme, gardencore.AddToScheme,
		gardencorev1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("failed to register the gardenlet's configuration: %w", err)
		}
	}

	data, err := os.ReadFile(path) // #nosec G304 -- the path is from the agent's own configuration.
	if err != nil {
		return nil, fmt.Errorf("failed to read the gardenlet's configuration: %w", err)
	}
	config := &gardenletconfigv1alpha1.GardenletConfiguration{}
	if err := runtime.DecodeInto(serializer.NewCodecFactory(scheme).UniversalDecoder(), data, config); err != nil {
		return nil, fmt.Errorf("failed to decode the gardenlet's configuration: %w", err)
	}

	if err := features.DefaultFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return nil, fmt.Errorf("failed to set the gardenlet's feature gates: %w", err)
	}
	if errs := gardenletvalidation.ValidateGardenletConfiguration(config, nil); len(errs) > 0 {
		return nil, fmt.Errorf("the gardenlet's configuration is invalid: %w", errs.ToAggregate())
	}
	if config.SeedConfig == nil || config.SeedConfig.Name == "" {
		return nil, errors.New("the gardenlet's configuration does not name its seed (seedConfig.metadata.name)")
	}
	return config, nil
}
