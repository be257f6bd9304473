// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package found_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/found"
)

var _ = Describe("Specs", func() {
	It("should be found by their folders and texts", func() {
		Expect(found.SpecsIn("matrix `cut-5s`; `pkg/a`: \"one\", \"the other\"; `pkg/b`: \"two\"")).
			To(Equal([]found.Spec{
				{Folder: "pkg/a", Text: "one"}, {Folder: "pkg/a", Text: "the other"}, {Folder: "pkg/b", Text: "two"},
			}))
	})

	It("should not be passed over because they are written in another way", func() {
		_, err := found.SpecsIn("`pkg/a`: one")
		Expect(err).To(MatchError(ContainSubstring("0 of 1 packages")))
	})

	It("should be there as specs, and not as any other text", func() {
		here := found.Spec{Folder: "test/found", Text: "should be there as specs, and not as any other text"}
		Expect(here.Check(repository)).To(Succeed())
		here.Text = "just a text"
		Expect(here.Check(repository)).To(MatchError(`test/found has no spec "just a text"`))
		here.Folder = "test/nowhere"
		Expect(here.Check(repository)).NotTo(Succeed())
	})
})
