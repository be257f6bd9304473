// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"crypto/tls"
	"io"
	"testing"

	"k8s.io/utils/clock"
)

// BenchmarkRelay compares the way through two relays with a direct connection, both over loopback and with TLS to the
// target, so that the difference is what the relays cost.
func BenchmarkRelay(b *testing.B) {
	innerCA, outerCA := newAuthority("etcd"), newAuthority("relay")
	files := outerCA.write(b.TempDir(), outerName)
	target := newStreamingEtcd(innerCA)
	defer target.Close()
	far := farConfig(files, target.Addr().String())
	near := nearConfig(files, far.Far.Port)
	stopNear, stopFar := start(near, clock.RealClock{}), start(far, clock.RealClock{})
	defer func() { _, _ = stopNear(), stopFar() }()

	direct := func() (*tls.Conn, error) {
		return tls.Dial("tcp", target.Addr().String(), &tls.Config{RootCAs: innerCA.pool(), ServerName: innerName})
	}
	relayed := func() (*tls.Conn, error) { return dial(innerCA, near.Near[0].Port, innerName) }

	for _, way := range []struct {
		name string
		dial func() (*tls.Conn, error)
	}{{"direct", direct}, {"relayed", relayed}} {
		b.Run("connect/"+way.name, func(b *testing.B) {
			for b.Loop() {
				conn, err := way.dial()
				if err != nil {
					b.Fatal(err)
				}
				_ = conn.Close()
			}
		})
		b.Run("roundtrip-1KiB/"+way.name, func(b *testing.B) { echo(b, way.dial, 1<<10) })
		b.Run("throughput-1MiB/"+way.name, func(b *testing.B) { echo(b, way.dial, 1<<20) })
	}
}

// BenchmarkHandshake makes the outer connection to a relay, in full and with a session, so that the difference is what
// the sessions save on both sides together.
func BenchmarkHandshake(b *testing.B) {
	innerCA, outerCA := newAuthority("etcd"), newAuthority("relay")
	target := newStreamingEtcd(innerCA)
	defer target.Close()
	far := farConfig(outerCA.write(b.TempDir(), outerName), target.Addr().String())
	stop := start(far, clock.RealClock{})
	defer func() { _ = stop() }()

	kept := &oneSession{}
	config := &tls.Config{RootCAs: outerCA.pool(), ServerName: outerName, NextProtos: []string{"livecpm-relay/1"},
		Certificates: []tls.Certificate{outerCA.keyPair(outerName)}, ClientSessionCache: kept}
	connect := func() *tls.Conn {
		conn, err := tls.Dial("tcp", address(far.Far.Port), config)
		if err != nil {
			b.Fatal(err)
		}
		return conn
	}
	conn := connect() // a session comes with the first answer
	if err := tls.Client(conn, &tls.Config{RootCAs: innerCA.pool(), ServerName: innerName}).Handshake(); err != nil {
		b.Fatal(err)
	}
	_ = conn.Close()

	for _, way := range []struct {
		name    string
		session *tls.ClientSessionState
	}{{"full", nil}, {"resumed", kept.last}} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				kept.last = way.session
				conn := connect()
				if conn.ConnectionState().DidResume != (way.session != nil) {
					b.Fatal("unexpected kind of handshake")
				}
				_ = conn.Close()
			}
		})
	}
}

func echo(b *testing.B, dial func() (*tls.Conn, error), size int) {
	conn, err := dial()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	message, answer := make([]byte, size), make([]byte, size)
	b.SetBytes(int64(2 * size))
	for b.Loop() {
		go func() { _, _ = conn.Write(message) }()
		if _, err := io.ReadFull(conn, answer); err != nil {
			b.Fatal(err)
		}
	}
}
