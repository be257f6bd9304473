// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package botanist_test

import (
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
)

var _ = Describe("NewFactory", func() {
	It("should refuse to make botanists of nothing", func() {
		_, err := botanist.NewFactory(botanist.Options{GardenClusterIdentity: "garden"})
		Expect(err).To(MatchError("failed to set up the construction of botanists: these options are missing: " +
			"GardenClient, GardenAPIReader, SeedClientSet, ShootClientMap, GardenletConfig, Identity, AccessControl"))
	})
})

var _ = Describe("WithTemporaryVPNClients", func() {
	It("should double the number of clients, and leave that of the servers", func() {
		o := &gardeneroperation.Operation{Shoot: &shootpkg.Shoot{VPNHighAvailabilityNumberOfSeedServers: 2,
			VPNHighAvailabilityNumberOfShootClients: 2}}
		botanist.Adjust(o, botanist.WithTemporaryVPNClients)
		Expect(o.Shoot.VPNHighAvailabilityNumberOfShootClients).To(Equal(4))
		Expect(o.Shoot.VPNHighAvailabilityNumberOfSeedServers).To(Equal(2))
	})
})
