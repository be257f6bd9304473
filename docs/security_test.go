// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

var _ = Describe("security.md", func() {
	page := read("security.md")
	named := regexp.MustCompile(`\]\(\.\./([^)]+_test\.go)\) "([^"]+)"`)

	// exists reports whether a test of that text stands in the file.
	exists := func(file, text string) bool {
		// A long text is a sum of several.
		content := regexp.MustCompile(`" ?\+\n\s*"`).ReplaceAllString(read(filepath.Join("..", file)), "")
		for _, form := range []string{"It(%q,", "It(fmt.Sprintf(%q,", "Entry(%q,", "DescribeTable(%q,",
			"DescribeTable(\n\t\t%q,"} {
			if strings.Contains(content, fmt.Sprintf(form, text)) {
				return true
			}
		}
		return strings.Contains(content, "func "+text+"(")
	}

	It("should name only tests that exist", func() {
		all := named.FindAllStringSubmatch(page, -1)
		Expect(len(all)).To(BeNumerically(">", 30))
		for _, test := range all {
			text := strings.Join(strings.Fields(test[2]), " ") // A line of the page may end in it.
			Expect(exists(test[1], text)).To(BeTrue(), "%s: %q", test[1], text)
		}
		Expect(exists("pkg/tunnel/relay/attempts_test.go", "does what nobody has written")).To(BeFalse())
	})

	It("should have a test for every attempt, and every test of an attempt", func() {
		table := rows(page, "attempt | by | what happens | test |")
		Expect(len(table)).To(BeNumerically(">=", 15))
		var listed []string
		for _, row := range table {
			Expect(row).To(HaveLen(4), strings.Join(row, " | "))
			Expect(row).NotTo(ContainElement(BeEmpty()))
			tests := named.FindAllStringSubmatch(row[3], -1)
			Expect(tests).NotTo(BeEmpty(), row[0])
			for _, test := range tests {
				listed = append(listed, test[1]+" "+test[2])
			}
		}

		var written []string
		for _, it := range regexp.MustCompile(`\bIt\("([^"]+)",`).FindAllStringSubmatch(
			read(filepath.Join("..", "pkg", "tunnel", "relay", "attempts_test.go")), -1) {
			written = append(written, "pkg/tunnel/relay/attempts_test.go "+it[1])
		}
		files, err := filepath.Glob(filepath.Join("..", "pkg", "tunnel", "relay", "*", "*_test.go"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range append(files, filepath.Join("..", "pkg", "tunnel", "relay", "fuzz_test.go")) {
			for _, fuzz := range regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`).FindAllStringSubmatch(read(file), -1) {
				written = append(written, strings.TrimPrefix(file, "../")+" "+fuzz[1])
			}
		}
		Expect(len(written)).To(BeNumerically(">=", 15))
		for _, test := range written {
			Expect(slices.Contains(listed, test)).To(BeTrue(), "not in the table of attempts: "+test)
		}
	})

	It("should give the limits of the code", func() {
		relay := read(filepath.Join("..", "pkg", "tunnel", "exposure", "relayconfig.go"))
		Expect(relay).To(MatchRegexp(`maxConnections = 4096\n`))
		Expect(relay).To(MatchRegexp(`maxHandshakes  = 512\n`))
		limits := map[string]string{}
		for _, row := range rows(page, "limit | value |") {
			limits[row[0]] = row[1]
		}
		Expect(limits).To(And(
			HaveKeyWithValue("connections at once", "4,096"),
			HaveKeyWithValue("handshakes at once, per port", "512"),
			HaveKeyWithValue("time for the handshake outside and the ClientHello inside, together",
				seconds(config.DefaultHandshakeTimeout.Seconds())),
			HaveKeyWithValue("time for the next hop to accept", seconds(config.DefaultDialTimeout.Seconds())),
		))
	})
})

func seconds(s float64) string { return fmt.Sprintf("%.0f s", s) }
