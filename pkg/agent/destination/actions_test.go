// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("NewActions", func() {
	It("should return the whole part of the role", func() {
		actions, err := destination.NewActions(newDeps().Options())
		Expect(err).NotTo(HaveOccurred())
		Expect(actions.Missing(steps.Destination)).To(BeEmpty())
	})

	It("should name what is missing", func() {
		_, err := destination.NewActions(destination.Options{})
		Expect(err).To(MatchError("failed to set up the destination's part in live migrations: these options are " +
			"missing: Botanists, Backups, Snapshots, ShootStates, Tunnel, Fronts, Etcds, ControlPlane, " +
			"GardenAPIReader, NameServers, SeedClientSet, SeedName, Identity, Timings"))
	})
})
