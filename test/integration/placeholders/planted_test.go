// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placeholders_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/planted"
)

// Each of them waits for the kube-apiserver to do with a sample what it is for.
var _ = Describe("The policies that plant faults", func() {
	for _, policy := range planted.Policies() {
		It("should come into force and go: "+policy.Name(), func() {
			DeferCleanup(func() { Expect(policy.Remove(ctx, seed)).To(Succeed()) })
			Expect(policy.Remove(ctx, seed)).To(Succeed(), "nothing is there")
			Expect(policy.Plant(ctx, seed)).To(Succeed())
			Expect(policy.Plant(ctx, seed)).To(Succeed(), "it is there")
			Expect(policy.Remove(ctx, seed)).To(Succeed())
		})
	}
})
