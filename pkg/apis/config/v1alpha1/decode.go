// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var decoder runtime.Decoder

func init() {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))
	decoder = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(SchemeGroupVersion)
}

// Decode reads a configuration strictly (unknown and duplicate fields are errors), sets the defaults and validates it.
func Decode(data []byte) (*AgentConfiguration, error) {
	config := &AgentConfiguration{}
	if err := runtime.DecodeInto(decoder, data, config); err != nil {
		return nil, fmt.Errorf("failed to decode the configuration: %w", err)
	}
	if errs := Validate(config); len(errs) > 0 {
		return nil, fmt.Errorf("the configuration is invalid: %w", errs.ToAggregate())
	}
	return config, nil
}

// Load reads a configuration from a file; see Decode.
func Load(path string) (*AgentConfiguration, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the path is the operator's own flag.
	if err != nil {
		return nil, fmt.Errorf("failed to read the configuration: %w", err)
	}
	return Decode(data)
}
