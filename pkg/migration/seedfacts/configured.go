// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedfacts

import (
	"encoding/json"
	"fmt"
)

// What follows is what the agent knows by its own configuration and that of its gardenlet.
const (
	// AnnotationTLSTermination on a Seed tells whether its ingress gateways end the TLS of shoots' clients (the
	// gardenlet's feature gate IstioTLSTermination): "true" or "false".
	AnnotationTLSTermination = "livecpm.gardener.cloud/tls-termination"
	// AnnotationExposureClassHandlers on a Seed names the ExposureClass handlers of its gardenlet
	// (exposureClassHandlers in the gardenlet's configuration), as a JSON list in alphabetical order.
	AnnotationExposureClassHandlers = "livecpm.gardener.cloud/exposure-class-handlers"
	// AnnotationAccessControl on a Seed names the types of extensions that its agent takes for access control
	// (controllers.liveMigration.accessControlExtensions of its configuration), sorted and separated by commas; empty
	// if there are none. Both agents of a migration must take the same ones for it.
	AnnotationAccessControl = "livecpm.gardener.cloud/access-control-extensions"
	// AnnotationWorkers on a Seed tells whether its agent migrates shoots with workers
	// (controllers.liveMigration.workers of its configuration): "true" or "false". Both agents of a migration must.
	AnnotationWorkers = "livecpm.gardener.cloud/workers"
)

// FormatHandlers returns the value of AnnotationExposureClassHandlers for the names.
func FormatHandlers(names []string) (string, error) {
	if names == nil {
		names = []string{}
	}
	value, err := json.Marshal(names)
	if err != nil {
		return "", fmt.Errorf("failed to write the names of ExposureClass handlers as JSON: %w", err)
	}
	return string(value), nil
}

// ParseHandlers returns the names in a value of AnnotationExposureClassHandlers.
func ParseHandlers(value string) ([]string, error) {
	var names []string
	if err := json.Unmarshal([]byte(value), &names); err != nil {
		return nil, fmt.Errorf("%q is no JSON list of names: %w", value, err)
	}
	return names, nil
}
