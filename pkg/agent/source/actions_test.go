// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("NewActions", func() {
	It("should return the whole part of the role", func() {
		actions, err := source.NewActions(newDeps().Options())
		Expect(err).NotTo(HaveOccurred())
		Expect(actions.Missing(steps.Source)).To(BeEmpty())
	})

	It("should work without a permission for shoots with workers, and without nothing else", func() {
		options := newDeps().Options()
		options.PermitsWorkers = false
		_, err := source.NewActions(options)
		Expect(err).NotTo(HaveOccurred())

		_, err = source.NewActions(source.Options{})
		Expect(err).To(MatchError("failed to set up the source's part in live migrations: these options are missing: " +
			"Botanists, Backups, Snapshots, ShootStates, Tunnel, Etcds, ControlPlane, GardenAPIReader, " +
			"SeedClientSet, SeedName, Timings"))
	})
})
