// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/metrics"
)

var _ = Describe("Metrics of the gate's watchdog", func() {
	watchdog := func() []string {
		var out []string
		for _, line := range gathered("guarded") {
			if strings.HasPrefix(line, "gate_") && !strings.HasPrefix(line, "gate_proved") {
				out = append(out, line)
			}
		}
		return out
	}

	AfterEach(metrics.ResetGate)

	It("should be served from controller-runtime's registry", func() {
		metrics.GateInForce("ns", "guarded", true)
		metrics.GateInForce("ns", "other", false)
		metrics.GateProof("InForce")
		metrics.GateProof("NotInForce")
		metrics.GateProof("InForce")
		metrics.GateObject("ValidatingAdmissionPolicy", true)
		metrics.GateObject("ValidatingAdmissionPolicyBinding", false)
		metrics.GateRestored("ValidatingAdmissionPolicy", "Missing")

		Expect(watchdog()).To(ConsistOf(
			"gate_in_force  1",
			"gate_proofs_total InForce 2",
			"gate_proofs_total NotInForce 1",
			"gate_object_intact ValidatingAdmissionPolicy 1",
			"gate_object_intact ValidatingAdmissionPolicyBinding 0",
			"gate_restorations_total Missing,ValidatingAdmissionPolicy 1",
		))

		metrics.GateInForce("ns", "guarded", false)
		Expect(watchdog()).To(ContainElement("gate_in_force  0"))
		metrics.ForgetGateInForce("ns", "guarded")
		Expect(watchdog()).NotTo(ContainElement(HavePrefix("gate_in_force")))
	})
})
