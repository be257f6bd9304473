// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/mutations"
)

var _ = Describe("Page", func() {
	It("should be what the repository has", func() {
		file := filepath.Join(repository, filepath.FromSlash(mutations.PageFile))
		actual := mutations.Page(mutations.Table())
		if os.Getenv("UPDATE_GOLDEN") != "" {
			Expect(os.WriteFile(file, []byte(actual), 0o644)).To(Succeed()) // #nosec G306 -- Everybody may read pages.
		}
		expected, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(actual).To(Equal(string(expected)), "write it with UPDATE_GOLDEN=1 go test ./test/mutations")
	})

	It("should have every mutation in a row", func() {
		page := mutations.Page(mutations.Table())
		Expect(strings.Count(page, "\n| `")).To(Equal(len(mutations.Table())))
		for _, mutation := range mutations.Table() {
			Expect(page).To(ContainSubstring("\n| `" + mutation.Name + "` | " + mutation.Harm + " |"))
		}
	})
})
