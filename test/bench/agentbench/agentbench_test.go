// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agentbench

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("perMigration", func() {
	It("should leave out watches and what was asked for before", func() {
		Expect(perMigration(
			map[string]int{"GET shoots": 2, "PATCH shoots/status": 1},
			map[string]int{"GET shoots": 12, "PATCH shoots/status": 1, "WATCH shoots": 7, "PROOF shoots/status": 5}, 5),
		).To(Equal(map[string]float64{"GET shoots": 2, "PROOF shoots/status": 1}))
	})
})

var _ = DescribeTable("handedOver",
	func(seed string, generation, observed int64, expected bool) {
		Expect(handedOver(&gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Generation: generation},
			Status:     gardencorev1beta1.ShootStatus{SeedName: &seed, ObservedGeneration: observed},
		})).To(Equal(expected))
	},
	Entry("waits for the new seed", source, int64(4), int64(3), false),
	Entry("waits for the request for a reconciliation", destination, int64(4), int64(4), false),
	Entry("has both", destination, int64(5), int64(4), true),
)
