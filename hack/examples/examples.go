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

// ControllerRegistration is the path, below the folder examples, of the manifest that lets gardenlets install the agent.
const ControllerRegistration = "gardener/controllerregistration.yaml"

//go:embed controllerregistration.yaml.tpl
var controllerRegistration string

// Files returns the generated files by their paths below the folder examples.
func Files() (map[string][]byte, error) {
	archive, err := charts.Archive(charts.Agent)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(ControllerRegistration).Option("missingkey=error").Parse(controllerRegistration)
	if err != nil {
		return nil, fmt.Errorf("failed to parse the template of %s: %w", ControllerRegistration, err)
	}
	buffer := &bytes.Buffer{}
	if err := parsed.Execute(buffer, map[string]any{"RawChart": base64.StdEncoding.EncodeToString(archive)}); err != nil {
		return nil, fmt.Errorf("failed to make %s: %w", ControllerRegistration, err)
	}
	return map[string][]byte{ControllerRegistration: buffer.Bytes()}, nil
}
