// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
)

var _ = Describe("New", func() {
	It("should name what is missing", func() {
		_, err := controlplane.New(controlplane.Options{Timings: flows.DefaultTimings()})
		Expect(err).To(MatchError("failed to set up the access to control planes: these options are missing: " +
			"SeedClientSet, Clock, DestroyTunnel"))
	})
})
