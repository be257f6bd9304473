// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screenshots_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/screenshots"
)

var _ = Describe("a terminal", func() {
	It("should be drawn as it looks", func() {
		svg, err := screenshots.Terminal("a\x1b[1mb\x1b[m <&\n\x1b[7m[1 Steps]\x1b[m \x1b[2;36mc" +
			"\n\x1b[0md\x1b[31me\x1b[39mf\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(svg).To(And(
			ContainSubstring(`>a</text>`), ContainSubstring(` font-weight="bold">b</text>`),
			ContainSubstring(">\u00a0&lt;&amp;</text>"),
			ContainSubstring(` fill="#14181f">[1`+"\u00a0"+`Steps]</text>`),
			ContainSubstring(` fill="#5bc8d8" opacity="0.6">c</text>`), ContainSubstring(`fill="#e4e8ef">d</text>`),
			ContainSubstring(` fill="#f27a84">e</text>`), ContainSubstring(` fill="#e4e8ef">f</text>`)))
		Expect(strings.Count(svg, "<rect")).To(Equal(2))
	})

	DescribeTable("should not be drawn otherwise than it looks", func(text, message string) {
		_, err := screenshots.Terminal("fine\n" + text)
		Expect(err).To(MatchError(ContainSubstring("failed to draw line 2: " + message)))
	},
		Entry("with a colour that is not known", "\x1b[35mx", `nothing is known of SGR parameter "35"`),
		Entry("with another sequence", "\x1b[2Jx", `"\x1b[2Jx" has a sequence that is no SGR`),
	)

	for _, picture := range screenshots.TerminalPictures() {
		It("should be in docs/images as the plugin draws it now (make screenshots): "+picture.Name, func() {
			root := filepath.Join("..", "..")
			shown, err := os.ReadFile(filepath.Join(root, picture.Screen))
			Expect(err).NotTo(HaveOccurred())
			svg, err := screenshots.Terminal(string(shown))
			Expect(err).NotTo(HaveOccurred())
			decoder := xml.NewDecoder(strings.NewReader(svg))
			for err == nil {
				_, err = decoder.Token()
			}
			Expect(errors.Is(err, io.EOF)).To(BeTrue(), "%v", err)
			drawn, err := os.ReadFile(filepath.Join(root, "docs", "images", picture.Name))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(drawn)).To(Equal(svg))
		})
	}

	It("should be shown as text as well where a terminal was recorded", func() {
		recorded, err := filepath.Glob(filepath.Join("..", "..", "docs", "usage", "recorded", "walkthrough", "*.ansi"))
		Expect(err).NotTo(HaveOccurred())
		Expect(recorded).NotTo(BeEmpty())
		for _, path := range recorded {
			shown, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			text, err := os.ReadFile(strings.TrimSuffix(path, ".ansi") + ".txt")
			Expect(err).NotTo(HaveOccurred())
			plain := regexp.MustCompile("\x1b\\[[0-9;]*m| +\n").ReplaceAllStringFunc(
				string(shown), func(s string) string {
					if strings.HasSuffix(s, "\n") {
						return "\n"
					}
					return ""
				})
			Expect(string(text)).To(Equal(plain), path)
		}
	})
})
