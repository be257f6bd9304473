// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/relay/tunnel"
)

// clientHello returns what a client sends first.
func clientHello(cfg *tls.Config) []byte {
	recorder := &recordingConn{}
	cfg.InsecureSkipVerify = true // #nosec G402 -- nothing is ever connected
	_ = tls.Client(recorder, cfg).Handshake()
	return recorder.Bytes()
}

// recordingConn takes what is written and has nothing to read.
type recordingConn struct {
	net.Conn
	bytes.Buffer
}

func (c *recordingConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (c *recordingConn) Write(p []byte) (int, error)      { return c.Buffer.Write(p) }
func (c *recordingConn) Close() error                     { return nil }
func (c *recordingConn) SetWriteDeadline(time.Time) error { return nil }

// fragment spreads a hello over records that carry size bytes of it each.
func fragment(hello []byte, size int) []byte {
	header, body := hello[:3], hello[5:]
	var out []byte
	for len(body) > 0 {
		n := min(size, len(body))
		out = append(append(out, header...), byte(n>>8), byte(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

var _ = Describe("ReadHello", func() {
	const name = "etcd-main-0.etcd-main-peer.ns.svc"

	It("should return the server name and every byte it read", func() {
		hello := clientHello(&tls.Config{ServerName: name, NextProtos: []string{"h2"}})
		got, err := tunnel.ReadHello(bytes.NewReader(append(hello, "early data"...)))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(Equal(name))
		Expect(append(hello, "early data"...)).To(HavePrefix(string(got.Raw)))
		Expect(len(got.Raw)).To(BeNumerically(">=", len(hello)))
	})

	It("should read no further than it must", func() {
		hello := clientHello(&tls.Config{ServerName: name})
		reader := bytes.NewReader(append(bytes.Clone(hello), make([]byte, 100_000)...))
		got, err := tunnel.ReadHello(reader)
		Expect(err).NotTo(HaveOccurred())
		Expect(reader.Len()).To(Equal(len(hello) + 100_000 - len(got.Raw)))
		Expect(reader.Len()).To(BeNumerically(">", 90_000))
	})

	It("should put fragments together, however they arrive", func() {
		hello := fragment(clientHello(&tls.Config{ServerName: name}), 40)
		got, err := tunnel.ReadHello(iotest.OneByteReader(bytes.NewReader(hello)))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(Equal(name))
		Expect(got.Raw).To(Equal(hello))
	})

	It("should accept a hello without server name", func() {
		got, err := tunnel.ReadHello(bytes.NewReader(clientHello(&tls.Config{})))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(BeEmpty())
	})

	It("should accept old clients", func() {
		got, err := tunnel.ReadHello(bytes.NewReader(clientHello(&tls.Config{ServerName: name, MaxVersion: tls.VersionTLS12})))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(Equal(name))
	})

	It("should fail on plain text, on an end and on nothing, and return what it read", func() {
		got, err := tunnel.ReadHello(strings.NewReader("GET / HTTP/1.1\r\n\r\n"))
		var notTLS tls.RecordHeaderError
		Expect(errors.As(err, &notTLS)).To(BeTrue(), "%v", err)
		Expect("GET / HTTP/1.1\r\n\r\n").To(HavePrefix(string(got.Raw)))

		hello := clientHello(&tls.Config{ServerName: name})
		_, err = tunnel.ReadHello(bytes.NewReader(hello[:len(hello)-1]))
		Expect(err).To(HaveOccurred())
		_, err = tunnel.ReadHello(strings.NewReader(""))
		Expect(err).To(HaveOccurred())
	})
})

var _ = DescribeTable("MatchServerName", func(pattern, name string, expected bool) {
	Expect(tunnel.MatchServerName(pattern, name)).To(Equal(expected))
},
	Entry("same name", "a.b", "a.b", true),
	Entry("pattern in capitals and with a final dot", "A.B.", "a.b", true),
	Entry("other name", "a.b", "c.b", false),
	Entry("name below", "a.b", "x.a.b", false),
	Entry("wildcard, one label", "*.b", "a.b", true),
	Entry("wildcard, two labels", "*.b", "x.a.b", true),
	Entry("wildcard and its own suffix", "*.b", "b", false),
	Entry("wildcard and an empty label", "*.b", ".b", false),
	Entry("wildcard and a name that only ends alike", "*.b", "ab", false),
	Entry("nothing matches nothing", "", "", false),
	Entry("no name", "*.b", "", false),
)

// FuzzClientHello checks what the relay relies on whatever a stranger sends: no panic, no byte lost or made up, and no
// name that could not be one.
func FuzzClientHello(f *testing.F) {
	hello := clientHello(&tls.Config{ServerName: "etcd-main-0.etcd-main-peer.ns.svc", NextProtos: []string{"h2"}})
	f.Add(hello)
	f.Add(fragment(hello, 7))
	f.Add(clientHello(&tls.Config{ServerName: "a.example", MaxVersion: tls.VersionTLS12}))
	f.Add(clientHello(&tls.Config{}))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := bytes.NewReader(data)
		got, err := tunnel.ReadHello(reader)
		if !bytes.HasPrefix(data, got.Raw) || len(got.Raw)+reader.Len() != len(data) {
			t.Errorf("read %d bytes, %d are left of %d", len(got.Raw), reader.Len(), len(data))
		}
		if err != nil && got.ServerName != "" {
			t.Errorf("server name %q along with error %v", got.ServerName, err)
		}
		if len(got.ServerName) > 0xffff || strings.HasSuffix(got.ServerName, ".") || got.ServerName != strings.ToLower(got.ServerName) {
			t.Errorf("server name %q is not canonical", got.ServerName)
		}
	})
}
