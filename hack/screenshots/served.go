// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screenshots

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// framePath is where the document is that measures the page, violationsPath where browsers report what a
	// Content-Security-Policy has kept a page from.
	framePath      = "/look-at-me"
	violationsPath = "/violations"
	// waitPath is what takes waitTime to be answered.
	waitPath = "/wait"
	waitTime = 2500 * time.Millisecond
)

// LookAt looks at the page that a server has at its root, in a window of the given width.
func (b Browser) LookAt(ctx context.Context, page http.Handler, width int, scheme Scheme) (Look, error) {
	folder, err := os.MkdirTemp("", "livecpm-look-")
	if err != nil {
		return Look{}, fmt.Errorf("failed to create a folder for the browser: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	shown := &frameable{page: page}
	server := httptest.NewServer(shown)
	defer server.Close()
	defer server.CloseClientConnections()
	out, err := b.look(ctx, window{folder: folder, scheme: scheme, width: width + 100, height: 1000, streams: true},
		server.URL+framePath+"?width="+strconv.Itoa(width))
	out.Violations = shown.reported()
	return out, err
}

// WriteOf writes a picture of the page that a server has at its root.
func (b Browser) WriteOf(ctx context.Context, page http.Handler, picture Picture) error {
	look, err := b.LookAt(ctx, page, picture.Width, picture.Scheme)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "livecpm-picture-")
	if err != nil {
		return fmt.Errorf("failed to create a folder for the browser: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	server := httptest.NewServer(page)
	defer server.Close()
	defer server.CloseClientConnections()
	_, err = b.run(ctx, window{folder: folder, scheme: picture.Scheme, width: picture.Width, height: look.Height},
		"--timeout=3000", "--screenshot="+picture.Path, server.URL)
	return err
}

// frameable shows a page also in the frame in which it is measured, and takes what browsers report.
type frameable struct {
	page http.Handler

	mu         sync.Mutex
	violations []string
}

// ServeHTTP implements http.Handler.
func (f *frameable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case framePath:
		width, _ := strconv.Atoi(r.URL.Query().Get("width"))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, framed("", width))
	case waitPath:
		select {
		case <-r.Context().Done():
		case <-time.After(waitTime):
		}
		w.WriteHeader(http.StatusNoContent)
	case violationsPath:
		report, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		f.mu.Lock()
		defer f.mu.Unlock()
		f.violations = append(f.violations, string(report))
	default:
		f.page.ServeHTTP(&unframed{ResponseWriter: w}, r)
	}
}

func (f *frameable) reported() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// unframed lifts what keeps a page out of frames, and nothing else.
type unframed struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (u *unframed) WriteHeader(status int) {
	u.begin()
	u.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (u *unframed) Write(data []byte) (int, error) {
	u.begin()
	return u.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController flush.
func (u *unframed) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u *unframed) begin() {
	if u.begun {
		return
	}
	u.begun = true
	header := u.Header()
	header.Del("X-Frame-Options")
	if policy := header.Get("Content-Security-Policy"); policy != "" {
		header.Set("Content-Security-Policy",
			strings.ReplaceAll(policy, "frame-ancestors 'none'", "frame-ancestors 'self'")+
				"; report-uri "+violationsPath)
	}
}
