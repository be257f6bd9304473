// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var decoder runtime.Decoder

func init() {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))
	decoder = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(SchemeGroupVersion)
}

// Decode reads the agent's configuration strictly (unknown and duplicate fields are errors), sets the defaults and
// validates it.
func Decode(data []byte) (*AgentConfiguration, error) {
	return decode(data, &AgentConfiguration{}, Validate)
}

// DecodeWith does the same for an agent of which the caller knows a part of the configuration better: the change is
// made after the defaults are set and before everything is validated.
func DecodeWith(data []byte, change func(*AgentConfiguration)) (*AgentConfiguration, error) {
	return decode(data, &AgentConfiguration{}, func(config *AgentConfiguration) field.ErrorList {
		change(config)
		return Validate(config)
	})
}

// Load reads the agent's configuration from a file; see Decode.
func Load(path string) (*AgentConfiguration, error) {
	return load(path, Decode)
}

// DecodeControllerManager does for livecpm-controller-manager what Decode does for the agent.
func DecodeControllerManager(data []byte) (*ControllerManagerConfiguration, error) {
	return decode(data, &ControllerManagerConfiguration{}, ValidateControllerManager)
}

// LoadControllerManager reads the configuration of livecpm-controller-manager from a file.
func LoadControllerManager(path string) (*ControllerManagerConfiguration, error) {
	return load(path, DecodeControllerManager)
}

func decode[T runtime.Object](data []byte, config T, validate func(T) field.ErrorList) (T, error) {
	var none T
	if err := runtime.DecodeInto(decoder, data, config); err != nil {
		return none, fmt.Errorf("failed to decode the configuration: %w", err)
	}
	if errs := validate(config); len(errs) > 0 {
		return none, fmt.Errorf("the configuration is invalid: %w", errs.ToAggregate())
	}
	return config, nil
}

func load[T runtime.Object](path string, decode func([]byte) (T, error)) (T, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the path is the operator's own flag.
	if err != nil {
		var none T
		return none, fmt.Errorf("failed to read the configuration: %w", err)
	}
	return decode(data)
}
