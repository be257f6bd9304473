// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("Loops", func() {
	It("should take processors in their cgroup until they are ended, and leave nothing", func(ctx SpecContext) {
		if os.Geteuid() != 0 {
			Skip("only root may make a cgroup")
		}
		cgroups, err := machine.DetectCgroups()
		Expect(err).NotTo(HaveOccurred())
		group := fmt.Sprintf("livecpm-loops-%d", os.Getpid())
		Expect(cgroups.BeginLoops(group, 1)).To(MatchError(ContainSubstring("failed to find cgroup " + group)))

		Expect(cgroups.Ensure(group, machine.WeightClients)).To(Succeed())
		DeferCleanup(func() {
			Expect(cgroups.EndLoops(group)).To(Succeed())
			Expect(cgroups.Remove(group)).To(Succeed())
		})
		Expect(cgroups.BeginLoops(group, 3)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			running, usage, err := cgroups.Loops(group)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(running).To(Equal(3))
			g.Expect(usage.CPU).To(BeNumerically(">", 0))
		}).WithTimeout(patience.Eventually).Should(Succeed())

		Expect(cgroups.EndLoops(group)).To(Succeed())
		running, usage, err := cgroups.Loops(group)
		Expect(err).NotTo(HaveOccurred())
		Expect(running).To(BeZero())
		Expect(usage).To(BeZero())
		Expect(cgroups.EndLoops(group)).To(Succeed(), "a second time")
	})
})
