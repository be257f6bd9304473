// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

var _ = Describe("ASCII", func() {
	It("should write every world without moving anything, and with a sign of its own for all that is drawn", func() {
		for _, name := range names("worlds") {
			text := view.Tree(expecting(name), view.Options{})
			plain := view.ASCII(text)
			Expect(plain).To(HaveLen(utf8.RuneCountInString(text)), name)
			Expect(plain).NotTo(ContainSubstring("?"), name)
		}
		expectGolden("tree-ascii", view.ASCII(view.Tree(expecting("waiting"), view.Options{})))
		Expect(view.ASCII("Grüße")).To(Equal("Gr??e"))
	})

	DescribeTable("should be written where the locale asks for it", func(env map[string]string, utf8 bool) {
		Expect(view.UTF8(func(name string) string { return env[name] })).To(Equal(utf8))
	},
		Entry("nothing is set", nil, false),
		Entry("LANG", map[string]string{"LANG": "en_US.UTF-8"}, true),
		Entry("LANG without a dash", map[string]string{"LANG": "C.utf8"}, true),
		Entry("LANG of another encoding", map[string]string{"LANG": "de_DE.ISO-8859-1"}, false),
		Entry("LC_ALL before the others", map[string]string{"LC_ALL": "C", "LANG": "en_US.UTF-8"}, false),
		Entry("LC_CTYPE before LANG", map[string]string{"LC_CTYPE": "UTF-8", "LANG": "C"}, true),
	)
})
