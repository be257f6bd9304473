// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/machine"
)

var _ = Describe("the whole machine", func() {
	It("should have been busy, never less than before, and use memory", func() {
		before, err := machine.BusyTime()
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(BeNumerically(">", 0))
		Expect(machine.BusyTime()).To(BeNumerically(">=", before))
		Expect(machine.UsedMemory()).To(BeNumerically(">", 1<<20))
	})
})
