// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	clientportforward "k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

// serve stands in for an API server that forwards ports: what is written comes back in capitals, unless a complaint is
// given, which the kubelet would write to the stream for errors.
func serve(complaint string, asked *string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = r.Method + " " + r.URL.Path
		if _, err := httpstream.Handshake(r, w, []string{clientportforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w,
			r, func(stream httpstream.Stream, _ <-chan struct{}) error {
				streams <- stream
				return nil
			})
		if conn == nil {
			return
		}
		defer func() { _ = conn.Close() }()
		failure, data := <-streams, <-streams
		*asked += " port " + data.Headers().Get("port")
		if complaint != "" {
			_, _ = io.WriteString(failure, complaint)
			_ = failure.Close()
			<-conn.CloseChan()
			return
		}
		buffer := make([]byte, 64)
		for {
			n, err := data.Read(buffer)
			if err != nil {
				return
			}
			if _, err := io.WriteString(data, strings.ToUpper(string(buffer[:n]))); err != nil {
				return
			}
		}
	})
}

var _ = Describe("Forwarder", func() {
	var asked string

	dial := func(handler http.Handler) (io.ReadWriteCloser, error) {
		server := httptest.NewServer(handler)
		DeferCleanup(server.Close)
		forwarder, err := access.NewForwarder("seed-a", &rest.Config{Host: server.URL})
		Expect(err).NotTo(HaveOccurred())
		return forwarder.Dial(context.Background(), "ns", "etcd-main-0", 2379)
	}

	It("should carry bytes to and from the port of the pod", func() {
		conn, err := dial(serve("", &asked))
		Expect(err).NotTo(HaveOccurred())
		for _, word := range []string{"hello", "again"} {
			_, err = io.WriteString(conn, word)
			Expect(err).NotTo(HaveOccurred())
			answer := make([]byte, len(word))
			_, err = io.ReadFull(conn, answer)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(answer)).To(Equal(strings.ToUpper(word)))
		}
		Expect(conn.Close()).To(Succeed())
		Expect(conn.Close()).To(Succeed())
		Expect(asked).To(Equal("POST /api/v1/namespaces/ns/pods/etcd-main-0/portforward port 2379"))
	})

	It("should end the connection when the port cannot be reached", func() {
		conn, err := dial(serve("connection refused", &asked))
		Expect(err).NotTo(HaveOccurred())
		Expect(io.ReadAll(conn)).To(BeEmpty(), "it should end, and without an answer")
	})

	It("should name the pod and the cluster when it is refused", func() {
		_, err := dial(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}))
		Expect(err).To(MatchError(ContainSubstring("failed to forward port 2379 of pod ns/etcd-main-0 in seed-a")))
	})
})
