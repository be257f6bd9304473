// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agentbench

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("perMigration", func() {
	It("should leave out watches and what was asked for before", func() {
		Expect(perMigration(
			map[string]int{"GET shoots": 2, "PATCH shoots/status": 1},
			map[string]int{"GET shoots": 12, "PATCH shoots/status": 1, "WATCH shoots": 7, "PROOF shoots/status": 5}, 5),
		).To(Equal(map[string]float64{"GET shoots": 2, "PROOF shoots/status": 1}))
	})
})
