// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/backups"
)

var _ = Describe("New", func() {
	It("should name what is missing", func() {
		_, err := backups.New(backups.Options{SeedName: "seed-a"})
		Expect(err).To(MatchError("failed to set up the access to backups: these options are missing: " +
			"GardenAPIReader, SeedClientSet"))
	})
})
