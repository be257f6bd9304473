// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

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

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
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
		got, err := wire.ReadHello(bytes.NewReader(append(hello, "early data"...)))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(Equal(name))
		Expect(append(hello, "early data"...)).To(HavePrefix(string(got.Raw)))
		Expect(len(got.Raw)).To(BeNumerically(">=", len(hello)))
	})

	It("should read no further than it must", func() {
		hello := clientHello(&tls.Config{ServerName: name})
		reader := bytes.NewReader(append(bytes.Clone(hello), make([]byte, 100_000)...))
		got, err := wire.ReadHello(reader)
		Expect(err).NotTo(HaveOccurred())
		Expect(reader.Len()).To(Equal(len(hello) + 100_000 - len(got.Raw)))
		Expect(reader.Len()).To(BeNumerically(">", 90_000))
	})

	It("should put fragments together, however they arrive", func() {
		hello := fragment(clientHello(&tls.Config{ServerName: name}), 40)
		got, err := wire.ReadHello(iotest.OneByteReader(bytes.NewReader(hello)))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(Equal(name))
		Expect(got.Raw).To(Equal(hello))
	})

	It("should accept a hello without server name", func() {
		got, err := wire.ReadHello(bytes.NewReader(clientHello(&tls.Config{})))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(BeEmpty())
	})

	It("should accept old clients", func() {
		got, err := wire.ReadHello(
			bytes.NewReader(clientHello(&tls.Config{ServerName: name, MaxVersion: tls.VersionTLS12})))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ServerName).To(Equal(name))
	})

	It("should fail on plain text, on an end and on nothing, and return what it read", func() {
		got, err := wire.ReadHello(strings.NewReader("GET / HTTP/1.1\r\n\r\n"))
		var notTLS tls.RecordHeaderError
		Expect(errors.As(err, &notTLS)).To(BeTrue(), "%v", err)
		Expect("GET / HTTP/1.1\r\n\r\n").To(HavePrefix(string(got.Raw)))

		hello := clientHello(&tls.Config{ServerName: name})
		_, err = wire.ReadHello(bytes.NewReader(hello[:len(hello)-1]))
		Expect(err).To(HaveOccurred())
		_, err = wire.ReadHello(strings.NewReader(""))
		Expect(err).To(HaveOccurred())
	})
})

var _ = DescribeTable("MatchServerName", func(pattern, name string, expected bool) {
	Expect(wire.MatchServerName(pattern, name)).To(Equal(expected))
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
	Entry("a letter that Unicode folds to one of ASCII", "kube.b", "\u212aube.b", false),
	Entry("the same below a wildcard's suffix", "*.kube", "a.\u212aube", false),
)

var _ = DescribeTable("Canonical", func(name, expected string) {
	Expect(wire.Canonical(name)).To(Equal(expected))
},
	Entry("capitals and a final dot", "Etcd-Main-0.SVC.", "etcd-main-0.svc"),
	Entry("one final dot only", "a..", "a."),
	Entry("the Kelvin sign is no k", "\u212a.b", "\u212a.b"),
	Entry("bytes that are no text", "\xff\xfeA", "\xff\xfea"),
	Entry("nothing", "", ""),
)

// serverNameOf reads the server name of a ClientHello by a parser that has nothing in common with the library's.
func serverNameOf(records []byte) (string, bool) {
	var hello []byte
	for len(records) >= 5 {
		size := int(records[3])<<8 | int(records[4])
		if len(records) < 5+size {
			break
		}
		if records[0] == 22 {
			hello = append(hello, records[5:5+size]...)
		}
		records = records[5+size:]
	}
	ok := true
	take := func(from *[]byte, n int) []byte {
		if n > len(*from) {
			ok = false
			n = len(*from)
		}
		taken := (*from)[:n]
		*from = (*from)[n:]
		return taken
	}
	number := func(from *[]byte, size int) (n int) {
		for _, b := range take(from, size) {
			n = n<<8 | int(b)
		}
		return n
	}
	vector := func(from *[]byte, size int) []byte { return take(from, number(from, size)) }

	if number(&hello, 1) != 1 {
		return "", false
	}
	hello = vector(&hello, 3)
	take(&hello, 2+32)
	vector(&hello, 1)
	vector(&hello, 2)
	vector(&hello, 1)
	if len(hello) == 0 {
		return "", ok
	}
	for extensions := vector(&hello, 2); ok && len(extensions) > 0; {
		kind, content := number(&extensions, 2), vector(&extensions, 2)
		if kind != 0 {
			continue
		}
		for names := vector(&content, 2); ok && len(names) > 0; {
			kind, name := number(&names, 1), vector(&names, 2)
			if kind == 0 {
				return string(name), ok
			}
		}
	}
	return "", ok
}

var _ = It("should find with the second parser of the fuzz target what the first one finds", func() {
	for name, hello := range map[string][]byte{
		"etcd.example": clientHello(&tls.Config{ServerName: "etcd.example", NextProtos: []string{"h2"}}),
		"old.example":  fragment(clientHello(&tls.Config{ServerName: "old.example", MaxVersion: tls.VersionTLS12}), 9),
		"":             clientHello(&tls.Config{}),
	} {
		found, ok := serverNameOf(hello)
		Expect(ok).To(BeTrue())
		Expect(found).To(Equal(name))
	}
	_, ok := serverNameOf([]byte("GET / HTTP/1.1\r\n\r\n"))
	Expect(ok).To(BeFalse())
})

// FuzzClientHello checks what the relay relies on whatever a stranger sends: no panic, no byte lost or made up, and the
// name that everybody else reads there.
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
		got, err := wire.ReadHello(reader)
		if !bytes.HasPrefix(data, got.Raw) || len(got.Raw)+reader.Len() != len(data) {
			t.Errorf("read %d bytes, %d are left of %d", len(got.Raw), reader.Len(), len(data))
		}
		if err != nil && got.ServerName != "" {
			t.Errorf("server name %q along with error %v", got.ServerName, err)
		}
		if got.ServerName != wire.Canonical(got.ServerName) {
			t.Errorf("server name %q is not canonical", got.ServerName)
		}
		if err != nil {
			return
		}
		if other, ok := serverNameOf(got.Raw); !ok || wire.Canonical(other) != got.ServerName {
			t.Errorf("server name %q, while another parser reads %q (to the end: %t)", got.ServerName, other, ok)
		}
	})
}

// FuzzMatchServerName compares the match with the rule as it is said: equal but for the case of ASCII letters and a
// final dot of the pattern, or longer and equal from the dot on that follows the asterisk.
func FuzzMatchServerName(f *testing.F) {
	f.Add("etcd-main-0.etcd-main-peer.ns.svc", "etcd-main-0.etcd-main-peer.ns.svc")
	f.Add("*.etcd-main-peer.ns.svc", "etcd-main-0.etcd-main-peer.ns.svc")
	f.Add("*.b.", ".b")
	f.Add("*", "a")
	f.Add("", "")
	f.Add("k.b", "\u212a.b")
	f.Fuzz(func(t *testing.T, pattern, sent string) {
		name := wire.Canonical(sent)
		expected := pattern != "" && pattern != "." && sameASCII(strings.TrimSuffix(pattern, "."), name)
		if strings.HasPrefix(pattern, "*") {
			suffix := strings.TrimSuffix(pattern, ".")[1:]
			expected = len(name) > len(suffix) && sameASCII(name[len(name)-len(suffix):], suffix)
		}
		if got := wire.MatchServerName(pattern, name); got != expected {
			t.Errorf("pattern %q, name %q: %t", pattern, name, got)
		}
	})
}

func sameASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		letter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
		if x != y && (!letter(x) || !letter(y) || x|0x20 != y|0x20) {
			return false
		}
	}
	return true
}
