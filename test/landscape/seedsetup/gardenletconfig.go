// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/yaml"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
)

// decodeGardenletConfiguration reads the chart's value as the gardenlet reads it, with upstream's defaults.
// It also returns the configuration as a file.
func decodeGardenletConfiguration(value any) (*gardenletconfigv1alpha1.GardenletConfiguration, []byte, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("gardenlet configuration is a %T, not a map", value)
	}
	typed := map[string]any{"apiVersion": gardenletconfigv1alpha1.SchemeGroupVersion.String(),
		"kind": "GardenletConfiguration"}
	for name, field := range fields {
		typed[name] = field
	}
	content, err := yaml.Marshal(typed)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to encode gardenlet configuration: %w", err)
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(gardenletconfigv1alpha1.AddToScheme(scheme))
	decoded := &gardenletconfigv1alpha1.GardenletConfiguration{}
	if err := runtime.DecodeInto(serializer.NewCodecFactory(scheme).UniversalDecoder(), content, decoded); err != nil {
		return nil, nil, fmt.Errorf("failed to decode gardenlet configuration: %w", err)
	}
	return decoded, content, nil
}
