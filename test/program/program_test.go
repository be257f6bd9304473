// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/program"
)

var _ = Describe("AwaitReady", func() {
	var (
		port  int
		looks atomic.Int32
	)

	BeforeEach(func() {
		port = program.FreePort()
		looks.Store(0)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		Expect(err).NotTo(HaveOccurred())
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" || looks.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
		go func() { _ = server.Serve(listener) }()
		DeferCleanup(server.Close)
	})

	It("should look until the program is ready", func(ctx SpecContext) {
		Expect(program.AwaitReady(ctx, port, time.Minute)).To(Succeed())
		Expect(looks.Load()).To(BeEquivalentTo(3))
	})

	It("should say why it gave up", func(ctx SpecContext) {
		looks.Store(-1000)
		Expect(program.AwaitReady(ctx, port, 200*time.Millisecond)).
			To(MatchError("not ready in time: 503 Service Unavailable"))
		Expect(program.AwaitReady(ctx, program.FreePort(), 200*time.Millisecond)).
			To(MatchError(ContainSubstring("connection refused")))
	})

	It("should not wait for an answer that never comes", func(ctx SpecContext) {
		port := program.FreePort()
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		Expect(program.AwaitReady(ctx, port, 100*time.Millisecond)).To(MatchError(context.DeadlineExceeded))
	})
})

var _ = Describe("FreePort", func() {
	It("should not give a port twice", func() {
		Expect(program.FreePort()).NotTo(Equal(program.FreePort()))
	})
})

var _ = Describe("Sleep", func() {
	It("should end with the context and its cause", func() {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		Expect(program.Sleep(ctx, time.Millisecond)).To(Succeed())
		cancel(cause)
		Expect(program.Sleep(ctx, time.Hour)).To(MatchError(cause))
	})
})
