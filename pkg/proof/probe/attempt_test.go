// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/proof/probe"
)

var _ = Describe("What client-go would send again", func() {
	const path = "https://example.com/api/v1/configmaps"

	answers := func(code int, retryAfter string) *http.Response {
		header := http.Header{}
		if retryAfter != "" {
			header.Set("Retry-After", retryAfter)
		}
		return &http.Response{StatusCode: code, Header: header}
	}
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

	DescribeTable("should follow client-go's rules",
		func(method, query string, resp *http.Response, err error, expected bool) {
			req, reqErr := http.NewRequestWithContext(context.Background(), method, path+query, nil)
			Expect(reqErr).NotTo(HaveOccurred())
			Expect(probe.SentAgain(req, resp, err)).To(Equal(expected))
		},
		Entry("a write that is to come later", http.MethodPut, "", answers(503, "1"), nil, true),
		Entry("a write that is one of too many", http.MethodPost, "", answers(429, "1"), nil, true),
		Entry("a write that fails", http.MethodPut, "", answers(500, ""), nil, false),
		Entry("a write with a date to wait for", http.MethodPut, "",
			answers(503, "Wed, 25 Nov 2026 10:00:00 GMT"), nil, false),
		Entry("a conflict, whatever it says", http.MethodPut, "", answers(409, "1"), nil, false),
		Entry("a write whose connection is reset", http.MethodPut, "", nil, reset, false),
		Entry("a read whose connection is reset", http.MethodGet, "", nil, reset, true),
		Entry("a read whose connection ends", http.MethodGet, "", nil, &url.Error{Op: "Get", URL: path, Err: io.EOF},
			true),
		Entry("a read whose connection is lost", http.MethodGet, "", nil, errors.New("http2: client connection lost"),
			true),
		Entry("a read that is refused", http.MethodGet, "", nil,
			&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, false),
		Entry("a read whose stream is reset", http.MethodGet, "", nil,
			errors.New("stream error: stream ID 3; INTERNAL_ERROR; received from peer"), false),
		Entry("a read that takes too long", http.MethodGet, "", nil, os.ErrDeadlineExceeded, false),
		Entry("a watch that takes too long to begin", http.MethodGet, "?watch=true", nil, os.ErrDeadlineExceeded, true),
		Entry("a watch whose connection ends", http.MethodGet, "?watch=1", nil, io.EOF, true),
		Entry("a watch whose connection is lost", http.MethodGet, "?watch=1", nil,
			errors.New("http2: client connection lost"), false),
		Entry("a watch that is to come later", http.MethodGet, "?watch=1", answers(429, "1"), nil, true),
	)
})
