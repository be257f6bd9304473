// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"testing"

	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/patience"
)

func TestApp(t *testing.T) {
	gardenletfeatures.RegisterFeatureGates()
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience.Eventually)
	RunSpecs(t, "Gardenlet App Suite")
}
