// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package examples makes those files in the folder examples that hold a packed chart.
package examples

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"text/template"

	"github.com/livecpm/livecpm/charts"
)

// ControllerRegistration is the path, below the folder examples, of the manifest that lets gardenlets install the
// agent.
const ControllerRegistration = "gardener/controllerregistration.yaml"

//go:embed controllerregistration.yaml.tpl
var controllerRegistration string

const (
	// registry and version are what operators replace in the examples.
	registry = "registry.example.com/livecpm"
	version  = "v0.1.0"
)

// Files returns the generated files by their paths below the folder examples.
func Files() (map[string][]byte, error) {
	archive, err := charts.Archive(charts.Agent)
	if err != nil {
		return nil, err
	}
	content, err := ControllerRegistrationWith(archive, registry, version)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{ControllerRegistration: content}, nil
}

// ControllerRegistrationWith returns the manifest that lets gardenlets install the packed chart of the agent with the
// images of that version from the registry.
func ControllerRegistrationWith(archive []byte, registry, version string) ([]byte, error) {
	parsed, err := template.New(ControllerRegistration).Option("missingkey=error").Parse(controllerRegistration)
	if err != nil {
		return nil, fmt.Errorf("failed to parse the template of %s: %w", ControllerRegistration, err)
	}
	buffer := &bytes.Buffer{}
	if err := parsed.Execute(buffer, map[string]any{"RawChart": base64.StdEncoding.EncodeToString(archive),
		"Registry": registry, "Version": version}); err != nil {
		return nil, fmt.Errorf("failed to make %s: %w", ControllerRegistration, err)
	}
	return buffer.Bytes(), nil
}
