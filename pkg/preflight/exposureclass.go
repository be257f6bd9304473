// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"strings"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// checkExposureClass asks for a handler of the shoot's ExposureClass in the destination. A gardenlet without that
// handler exposes the control plane at its default ingress gateway and says nothing (upstream's
// Operation.exposureClassHandler): an API server for an internal network would become public.
func checkExposureClass(f Facts) Finding {
	if f.Shoot.Spec.ExposureClassName == nil {
		return pass(ExposureClass, "the shoot asks for no ExposureClass")
	}
	name := *f.Shoot.Spec.ExposureClassName
	if f.ExposureClass == nil {
		return unknown(ExposureClass, remedyRead, "ExposureClass %s could not be read: %v", name, f.ExposureClassError)
	}
	handlers, problem := f.handlersOfDestination()
	if problem != nil {
		return *problem
	}
	handler := f.ExposureClass.Handler
	if !slices.Contains(handlers, handler) {
		return fail(ExposureClass,
			"add the handler to exposureClassHandlers in the configuration of the destination's gardenlet, or choose "+
				"another destination",
			"ExposureClass %s asks for handler %s, and the gardenlet of seed %s has %s: the API server would be "+
				"exposed at the default gateway", name, handler, f.Destination.Name, listed(handlers))
	}
	return pass(ExposureClass, "seed %s has handler %s of ExposureClass %s", f.Destination.Name, handler, name)
}

// handlersOfDestination returns the names of the handlers that the gardenlet of the destination has, or a finding if
// they are not known. The destination's agent has its configuration; others have what that agent has published.
func (f Facts) handlersOfDestination() ([]string, *Finding) {
	if f.Gardenlet != nil && f.OwnSeed == f.Destination.Name {
		return HandlerNames(f.Gardenlet), nil
	}
	value, published := f.Destination.Seed.Annotations[seedfacts.AnnotationExposureClassHandlers]
	if !published {
		finding := unknown(ExposureClass, remedyPublish,
			"the agent of seed %s has not published its ExposureClass handlers (annotation %s)", f.Destination.Name,
			seedfacts.AnnotationExposureClassHandlers)
		return nil, &finding
	}
	handlers, err := seedfacts.ParseHandlers(value)
	if err != nil {
		finding := unknown(ExposureClass, remedyPublish,
			"the ExposureClass handlers of seed %s could not be read from its annotation: %v", f.Destination.Name, err)
		return nil, &finding
	}
	return handlers, nil
}

// HandlerNames returns the names of the ExposureClass handlers of a gardenlet in alphabetical order.
func HandlerNames(config *gardenletconfigv1alpha1.GardenletConfiguration) []string {
	names := []string{}
	for _, handler := range config.ExposureClassHandlers {
		names = append(names, handler.Name)
	}
	slices.Sort(names)
	return names
}

func listed(handlers []string) string {
	if len(handlers) == 0 {
		return "no handlers"
	}
	return "only " + strings.Join(handlers, ", ")
}
