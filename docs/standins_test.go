// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("the table of stand-ins", func() {
	table := rows(read(filepath.Join("development", "landscape.md")), "stand-in | real behaviour |")

	It("should have a row for every folder of stand-ins, and none for another", func() {
		folders, err := os.ReadDir(filepath.Join("..", "test", "standins"))
		Expect(err).NotTo(HaveOccurred())
		var there, shown []string
		for _, folder := range folders {
			there = append(there, "`test/standins/"+folder.Name()+"`")
		}
		for _, row := range table {
			if len(row[0]) > 0 && row[0][0] == '`' {
				shown = append(shown, row[0])
			}
		}
		Expect(shown).To(ConsistOf(there))
	})

	It("should say of every one what is different and what it could hide", func() {
		Expect(table).NotTo(BeEmpty())
		for _, row := range table {
			Expect(row).To(HaveLen(4), row[0])
			if row[0] == "`test/standins/accept`" { // serves the others
				continue
			}
			for _, cell := range row {
				Expect(cell).NotTo(BeEmpty(), row[0])
			}
		}
	})
})
