// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screenshots_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/hack/screenshots"
	"github.com/livecpm/livecpm/pkg/cli/dashboard"
)

var _ = Describe("Joining", func() {
	It("should show what is expected of the migration, as the command does", func() {
		looks, err := screenshots.Joining(filepath.Join("..", ".."))
		Expect(err).NotTo(HaveOccurred())
		for _, look := range looks {
			server := &dashboard.Server{Clock: testclock.NewFakeClock(look.Now.Time),
				Read: func(context.Context) (dashboard.Look, error) { return look, nil }}
			Expect(server.Look(context.Background())).To(Succeed())
			request := httptest.NewRequest(http.MethodGet, "/content", nil)
			request.Host = "127.0.0.1:4711"
			local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
			answer := httptest.NewRecorder()
			server.Handler().ServeHTTP(answer, request.WithContext(
				context.WithValue(request.Context(), http.LocalAddrContextKey, net.Addr(local))))
			Expect(answer.Body.String()).To(MatchRegexp(`<span class="num">~\d+m left</span>`))
		}
	})
})

var _ = Describe("the dashboard in a browser", func() {
	var (
		ctx     = context.Background()
		browser screenshots.Browser
		server  *dashboard.Server
		look    dashboard.Look
	)

	BeforeEach(func() {
		path, err := screenshots.FindBrowser()
		if errors.Is(err, screenshots.ErrNoBrowser) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		browser = screenshots.Browser{Path: path}
		looks, err := screenshots.Joining(filepath.Join("..", ".."))
		Expect(err).NotTo(HaveOccurred())
		server = &dashboard.Server{Clock: testclock.NewFakeClock(looks[0].Now.Time),
			Read: func(context.Context) (dashboard.Look, error) { return look, nil }}
		for _, look = range looks {
			Expect(server.Look(ctx)).To(Succeed())
		}
	})

	for _, width := range []int{400, 800, 1600} {
		It(fmt.Sprintf("should fit %d pixels, in both colour schemes, and ask nobody else", width), func() {
			for scheme, background := range map[screenshots.Scheme]string{screenshots.Light: "rgb(255, 255, 255)",
				screenshots.Dark: "rgb(20, 24, 31)"} {
				seen, err := browser.LookAt(ctx, server.Handler(), width, scheme)
				Expect(err).NotTo(HaveOccurred())
				Expect(seen.Width).To(BeNumerically("<=", width), "%s is too wide", seen.Widest)
				Expect(seen.Height).To(BeNumerically(">", 400))
				Expect(seen.Background).To(Equal(background), string(scheme))
				Expect(seen.SmallestText).To(And(BeNumerically(">=", 9), BeNumerically("<", 100)))
				Expect(seen.Violations).To(BeEmpty())
				Expect(seen.Text).To(And(ContainSubstring("kubectl livecpm pause live -n garden-demo"),
					ContainSubstring("Where the time went")))
			}
		})
	}

	It("should follow the migration without being loaded again", func() {
		var once sync.Once
		handler := server.Handler()
		seen, err := browser.LookAt(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" {
				once.Do(func() {
					look.Shoot = look.Shoot.DeepCopy()
					look.Shoot.Status.LiveMigration.Conditions[1].Reason = "SomethingElse"
					Expect(server.Look(ctx)).To(Succeed())
				})
			}
			handler.ServeHTTP(w, r)
		}), 800, screenshots.Light)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Text).To(ContainSubstring("SomethingElse"))
	})

	It("should notice what a policy forbids", func() {
		seen, err := browser.LookAt(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<!DOCTYPE html><style>p { color: red }</style><p>text</p>`)
		}), 400, screenshots.Light)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Violations).To(ContainElement(ContainSubstring("style-src")))
	})
})
