// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup

import (
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"

	"github.com/livecpm/livecpm/test/landscape/garden"
)

// GardenletConfiguration returns the configuration that the gardenlet is going to have.
func (s *Setup) GardenletConfiguration() (*gardenletconfigv1alpha1.GardenletConfiguration, error) {
	err := s.readGardenletValues()
	return s.gardenlet, err
}

// DruidImages is druidImages for tests.
func DruidImages(dir string) (map[string]string, error) { return druidImages(garden.Module{Dir: dir}) }
