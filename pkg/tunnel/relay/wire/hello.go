// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package wire holds what every TCP proxy that routes TLS without ending it needs: reading the server name from a
// ClientHello so that the same bytes can be passed on, and joining two connections with half-close.
package wire

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
)

// Hello is what was learned from the start of a TLS connection.
type Hello struct {
	// ServerName is the SNI in its canonical form, see Canonical; empty when the client sent none.
	ServerName string
	// Raw are all bytes taken from the connection. They must be sent on before anything else.
	Raw []byte
}

var errHelloSeen = errors.New("client hello seen")

// ReadHello reads a ClientHello and nothing more than the records it came in. It writes nothing, so the caller may
// still hand the connection to another TLS server. The caller sets the deadline. On error the Hello has what was read
// until then.
func ReadHello(r io.Reader) (Hello, error) {
	var (
		raw   bytes.Buffer
		hello Hello
	)
	// The library's own parser is used: it knows about fragments, limits and extensions, and it stays up to date.
	config := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		hello.ServerName = Canonical(info.ServerName)
		return nil, errHelloSeen
	}}
	err := tls.Server(readOnlyConn{r: io.TeeReader(r, &raw)}, config).Handshake()
	hello.Raw = raw.Bytes()
	if errors.Is(err, errHelloSeen) {
		return hello, nil
	}
	return hello, err
}

// readOnlyConn lets the parser read and swallows the alert it writes when it stops. Nothing else of net.Conn is called
// during a handshake without a context.
type readOnlyConn struct {
	net.Conn

	r io.Reader
}

func (c readOnlyConn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c readOnlyConn) Write(p []byte) (int, error) { return len(p), nil }
func (c readOnlyConn) Close() error                { return nil }

// Canonical returns a server name in lower case and without a trailing dot. Only ASCII letters change: DNS folds no
// others, and Unicode has letters, the Kelvin sign for one, whose lower case is an ASCII letter. A name that differs
// from a configured one must not become equal to it here and be another one for the target.
func Canonical(name string) string {
	canonical := []byte(strings.TrimSuffix(name, "."))
	for i, c := range canonical {
		if 'A' <= c && c <= 'Z' {
			canonical[i] = c + ('a' - 'A')
		}
	}
	return string(canonical)
}

// MatchServerName reports whether a pattern covers a server name. A pattern is a name, or "*." and a suffix that covers
// every name below it. The name is as ReadHello returns it.
func MatchServerName(pattern, name string) bool {
	pattern = Canonical(pattern)
	if suffix, wildcard := strings.CutPrefix(pattern, "*"); wildcard {
		return len(name) > len(suffix) && strings.HasSuffix(name, suffix)
	}
	return pattern != "" && pattern == name
}
