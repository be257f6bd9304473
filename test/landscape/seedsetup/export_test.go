// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	"k8s.io/apimachinery/pkg/util/sets"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/garden"
)

// GardenletConfiguration returns the configuration that the gardenlet is going to have.
func (s *Setup) GardenletConfiguration() (*gardenletconfigv1alpha1.GardenletConfiguration, error) {
	err := s.readGardenletValues()
	return s.gardenlet, err
}

// ChartValues returns the values of the gardenlet's chart.
func (s *Setup) ChartValues() (map[string]any, error) {
	err := s.readGardenletValues()
	return s.values, err
}

// ResourceManagerReplicas is the number of gardener-resource-managers that the seed is going to have.
func (s *Setup) ResourceManagerReplicas() (*int32, error) {
	if err := s.readGardenletValues(); err != nil {
		return nil, err
	}
	manager, err := s.resourceManager(nil)
	if err != nil {
		return nil, err
	}
	return manager.GetReplicas(), nil
}

// MachinesManifest is machinesManifest for tests.
func (s *Setup) MachinesManifest() ([]byte, error) { return s.machinesManifest() }

// AgentConfiguration is agentConfiguration for tests.
func (s *Setup) AgentConfiguration() ([]byte, error) { return s.agentConfiguration() }

// ImageVectorOverwrite is imageVectorOverwrite for tests.
var ImageVectorOverwrite = imageVectorOverwrite

// ImageSets are the sets that images of Gardener's vector are in.
func ImageSets() []sets.Set[string] {
	return []sets.Set[string]{realImages, placeholderImages, otherImages}
}

// DruidImages is druidImages for tests.
func DruidImages(dir string) (map[string]string, error) { return druidImages(garden.Module{Dir: dir}) }

// IstiodImage is istiodImage for tests, of a component in a folder.
func IstiodImage(dir string) (tarball.Image, error) {
	refs := &gardenerRefs{version: "v0.0.0"}
	made := istiodImage(programs{folders: map[string]string{toolIstio: dir}}, refs)
	return made, refs.err
}

// GatewayPorts is gatewayPorts for tests.
var GatewayPorts = gatewayPorts

// EnvoyFilters is what is applied to all gateways.
var EnvoyFilters = envoyFiltersManifest
