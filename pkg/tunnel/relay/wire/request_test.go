// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing/iotest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

var _ = Describe("ReadRequest", func() {
	const head = "GET /raft/stream/message/1 HTTP/1.1\r\nHost: Etcd-Main-0.etcd-main-peer.ns.svc:2380\r\n" +
		"X-Server-From: 2\r\n\r\n"

	DescribeTable("should take the host for the server name", func(text, expected string) {
		hello, err := ReadRequest(strings.NewReader(text))
		Expect(err).NotTo(HaveOccurred())
		Expect(hello.ServerName).To(Equal(expected))
		Expect(string(hello.Raw)).To(Equal(text))
	},
		Entry("with a port", head, "etcd-main-0.etcd-main-peer.ns.svc"),
		Entry("without", "GET / HTTP/1.1\r\nHost: a.b.\r\n\r\n", "a.b"),
		Entry("with an address", "GET / HTTP/1.1\r\nHost: [2001:db8::1]:2380\r\n\r\n", "2001:db8::1"),
		Entry("with a body behind it", head+"body", "etcd-main-0.etcd-main-peer.ns.svc"),
		Entry("without any", "GET / HTTP/1.0\r\n\r\n", ""),
	)

	It("should need no more than the head, however slowly it comes", func() {
		hello, err := ReadRequest(iotest.OneByteReader(strings.NewReader(head + "body")))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(hello.Raw)).To(HavePrefix(head))
		Expect(hello.ServerName).To(Equal("etcd-main-0.etcd-main-peer.ns.svc"))
	})

	It("should not read on behind the head of a request whose body is still to come", func() {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		go func() { _, _ = io.WriteString(client, head) }()
		hello, err := ReadRequest(server)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(hello.Raw)).To(Equal(head))
	})

	It("should read what Go's client sends, as etcd's peers do", func() {
		client, server := net.Pipe()
		defer server.Close()
		request, err := http.NewRequest(http.MethodPost, "http://etcd-main-0.etcd-main-peer.ns.svc:2380/raft",
			strings.NewReader("entries"))
		Expect(err).NotTo(HaveOccurred())
		go func() {
			defer client.Close()
			_ = request.Write(client)
		}()
		hello, err := ReadRequest(server)
		Expect(err).NotTo(HaveOccurred())
		Expect(hello.ServerName).To(Equal("etcd-main-0.etcd-main-peer.ns.svc"))
	})

	DescribeTable("should refuse", func(text, problem string) {
		hello, err := ReadRequest(strings.NewReader(text))
		Expect(err).To(MatchError(ContainSubstring(problem)))
		Expect(hello.ServerName).To(BeEmpty())
		Expect(text).To(HavePrefix(string(hello.Raw)))
	},
		Entry("TLS", "\x16\x03\x01\x00\x05hello", "does not begin with a request"),
		Entry("something else", "GET\r\n\r\n", "malformed HTTP"),
		Entry("nothing", "", "EOF"),
		Entry("half a head", "GET / HTTP/1.1\r\nHost: a", "EOF"),
		Entry("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2.0"),
		Entry("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "too many Host headers"),
		Entry("a head without end", "GET / HTTP/1.1\r\nA: "+strings.Repeat("a", 20<<10), "longer than 16384 bytes"),
	)

	It("should say that it is the request, and not the connection", func() {
		_, err := ReadRequest(strings.NewReader("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		var request *RequestError
		Expect(errors.As(err, &request)).To(BeTrue())
	})
})
