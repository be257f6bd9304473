// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/livecpm/livecpm/pkg/garden/gatewatchdog"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

var _ = Describe("#Shipped", func() {
	It("should return policy and binding of the chart", func() {
		shipped, err := gatewatchdog.Shipped()
		Expect(err).NotTo(HaveOccurred())
		Expect(shipped.Policy.Name).To(Equal(gate.PolicyName))
		Expect(shipped.Policy.Spec.FailurePolicy).To(HaveValue(Equal(admissionregistrationv1.Fail)))
		Expect(shipped.Policy.Spec.Validations).NotTo(BeEmpty())
		Expect(shipped.Binding.Name).To(Equal(gate.PolicyName))
		Expect(shipped.Binding.Spec.PolicyName).To(Equal(gate.PolicyName))
		Expect(shipped.Binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny))
	})
})
