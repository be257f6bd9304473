// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/tunnel"
)

var _ = Describe("New", func() {
	It("should name what is missing", func() {
		_, err := tunnel.New(tunnel.Options{RelayImage: "relay"})
		Expect(err).To(MatchError("failed to set up the tunnel between the seeds: these options are missing: " +
			"GardenAPIReader, SeedClient"))
	})
})
