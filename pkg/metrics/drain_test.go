// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/metrics"
)

var _ = Describe("Metrics of the drains", func() {
	drains := func() []string {
		var out []string
		for _, line := range gathered("") {
			if strings.HasPrefix(line, "drain_") {
				out = append(out, line)
			}
		}
		return out
	}

	AfterEach(metrics.ResetDrain)

	It("should be served from controller-runtime's registry, and forget seeds", func() {
		metrics.DrainShoots("seed-a", "Done", 3)
		metrics.DrainShoots("seed-a", "Blocked", 1)
		metrics.DrainShoots("seed-b", "Done", 7)
		metrics.DrainCircuit("seed-a", true)
		metrics.DrainCircuit("seed-b", false)
		metrics.DrainStarted("seed-a", "Live")
		metrics.DrainStarted("seed-a", "Live")
		metrics.DrainEnded("seed-a", "Succeeded")
		Expect(drains()).To(ConsistOf(
			"drain_shoots seed-a,Done 3", "drain_shoots seed-a,Blocked 1", "drain_shoots seed-b,Done 7",
			"drain_circuit_open seed-a 1", "drain_circuit_open seed-b 0",
			"drain_starts_total seed-a,Live 2", "drain_results_total Succeeded,seed-a 1",
		))

		metrics.ForgetDrain("seed-a")
		Expect(drains()).To(ConsistOf(
			"drain_shoots seed-b,Done 7", "drain_circuit_open seed-b 0",
			"drain_starts_total seed-a,Live 2", "drain_results_total Succeeded,seed-a 1",
		))
	})
})
