// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screenshots_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/hack/screenshots"
)

var _ = Describe("the report in a browser", func() {
	var (
		ctx     = context.Background()
		browser screenshots.Browser
	)

	BeforeEach(func() {
		path, err := screenshots.FindBrowser()
		if errors.Is(err, screenshots.ErrNoBrowser) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		browser = screenshots.Browser{Path: path}
	})

	for _, name := range []string{"recorded", "series", "shoot", "under-way"} {
		for _, width := range []int{1600, 1280, 400} {
			It(fmt.Sprintf("should fit %d pixels, in both colour schemes, and ask for nothing: %s", width, name),
				func() {
					page, err := os.ReadFile(filepath.Join("..", "..", "pkg", "proof", "report", "testdata", "golden",
						name+".html"))
					Expect(err).NotTo(HaveOccurred())
					backgrounds := map[screenshots.Scheme]string{screenshots.Light: "rgb(255, 255, 255)",
						screenshots.Dark: "rgb(20, 24, 31)"}
					for scheme, background := range backgrounds {
						look, err := browser.Look(ctx, string(page), width, scheme)
						Expect(err).NotTo(HaveOccurred())
						Expect(look.Width).To(BeNumerically("<=", width), "%s is too wide", look.Widest)
						Expect(look.Height).To(BeNumerically(">", 400))
						Expect(look.Background).To(Equal(background), string(scheme))
						Expect(look.Requests).To(BeZero())
						Expect(look.SmallestText).To(And(BeNumerically(">=", 9), BeNumerically("<", 100)))
					}
				})
		}
	}

	It("should notice a page that is too wide, and one that asks for something", func() {
		server := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/css")
			}))
		DeferCleanup(server.Close)
		look, err := browser.Look(ctx, `<!DOCTYPE html><link rel="stylesheet" href="`+server.URL+
			`"><body><div class="w" style="width:900px">x</div>`, 400, screenshots.Light)
		Expect(err).NotTo(HaveOccurred())
		Expect(look.Width).To(BeNumerically(">=", 900))
		Expect(look.Widest).To(Equal("DIV.w"))
		Expect(look.Requests).To(Equal(1))
	})
})

var _ = Describe("FindBrowser", func() {
	It("should not look elsewhere when one is named", func() {
		GinkgoT().Setenv(screenshots.BrowserVariable, "/does/not/exist")
		_, err := screenshots.FindBrowser()
		Expect(err).To(MatchError(ContainSubstring(screenshots.BrowserVariable)))
	})
})
