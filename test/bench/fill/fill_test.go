// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fill

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("values", func() {
	It("should be different ones under keys of their own", func() {
		first, second := values(0, 2), values(2, 1)
		Expect(first).To(HaveLen(2))
		keys := map[string]bool{}
		contents := map[string]bool{}
		for _, op := range append(first, second...) {
			keys[string(op.KeyBytes())], contents[string(op.ValueBytes())] = true, true
			Expect(op.ValueBytes()).To(HaveLen(valueSize))
			Expect(string(op.KeyBytes())).To(HavePrefix(Prefix))
		}
		Expect(keys).To(HaveLen(3))
		Expect(contents).To(HaveLen(3))
	})
})
