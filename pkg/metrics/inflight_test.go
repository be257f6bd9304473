// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("Metrics of what is in flight", func() {
	recorded := func() []string {
		var out []string
		for _, line := range gathered("") {
			if strings.HasPrefix(line, "migrations_in_flight") || strings.HasPrefix(line, "idle") {
				out = append(out, line)
			}
		}
		return out
	}

	AfterEach(metrics.ForgetInFlight)

	It("should count each migration in both seeds, and forget those that are over", func() {
		metrics.InFlight(summary.InFlight{Migrations: []summary.Moving{
			{Source: "seed-a", Destination: "seed-b", State: summary.Processing},
			{Source: "seed-c", Destination: "seed-b", State: summary.Processing},
			{Source: "seed-a", Destination: "seed-b", State: summary.Held},
		}})
		Expect(recorded()).To(ConsistOf(
			"migrations_in_flight Processing,seed-a 1", "migrations_in_flight Processing,seed-b 2",
			"migrations_in_flight Processing,seed-c 1", "migrations_in_flight Held,seed-a 1",
			"migrations_in_flight Held,seed-b 1", "idle removal 0", "idle upgrade 0",
		))
		metrics.InFlight(summary.InFlight{MayUpgrade: true})
		Expect(recorded()).To(ConsistOf("idle removal 0", "idle upgrade 1"))
	})

	It("should have no answer when nobody knows, rather than an old one", func() {
		metrics.InFlight(summary.InFlight{MayUpgrade: true, MayRemove: true})
		Expect(recorded()).To(ConsistOf("idle removal 1", "idle upgrade 1"))
		metrics.ForgetInFlight()
		Expect(recorded()).To(BeEmpty())
	})
})
