// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
	"github.com/livecpm/livecpm/test/patience"
)

// What FuzzStranger does with its bytes.
const (
	intoNear   uint8 = iota // as somebody in the shoot's namespace
	intoFar                 // as anybody whom the ingress gateway hands over
	intoTunnel              // as somebody who has a certificate of this shoot's relays
	ways
)

// FuzzStranger sends bytes to running relays in each way that there is. Nothing may reach the target but what begins
// with a ClientHello that asks for one of the members, and that must arrive as it was sent.
func FuzzStranger(f *testing.F) {
	outerCA := newAuthority("relay")
	files := outerCA.write(f.TempDir(), outerName)
	target := must(net.Listen("tcp", "127.0.0.1:0"))
	arrived := make(chan []byte, 16)
	go collect(target, arrived)
	far := farConfig(files, target.Addr().String())
	near := nearConfig(files, far.Far.Port)
	stopNear, stopFar := start(near, clock.RealClock{}), start(far, clock.RealClock{})
	f.Cleanup(func() { _, _, _ = stopNear(), stopFar(), target.Close() })
	own := &tls.Config{RootCAs: outerCA.pool(), ServerName: outerName, NextProtos: []string{"livecpm-relay/1"},
		Certificates: []tls.Certificate{outerCA.keyPair(outerName)}}

	for way := range ways {
		f.Add(way, []byte("GET / HTTP/1.1\r\n\r\n"))
		f.Add(way, []byte{})
		f.Add(way, clientHello(innerName))
		f.Add(way, append(clientHello(innerName), 23, 3, 3, 0, 1, 0))
		f.Add(way, clientHello("kubernetes.default.svc"))
	}

	f.Fuzz(func(t *testing.T, way uint8, data []byte) {
		allowed := way%ways != intoFar && asksForMember(data)
		port := far.Far.Port
		if way%ways == intoNear {
			port = near.Near[0].Port
		}
		raw, err := net.Dial("tcp", address(port))
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		var conn wire.Conn = raw.(*net.TCPConn)
		if way%ways == intoTunnel {
			conn = tls.Client(raw, own)
		}
		_, _ = conn.Write(data)
		_ = conn.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience.Eventually))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection was not ended")
		}

		if allowed {
			expectArrival(t, arrived, data)
		} else {
			expectNothing(t, arrived)
		}
	})
}

// collect hands over what each connection to the target has sent until its end.
func collect(target net.Listener, arrived chan<- []byte) {
	for {
		conn, err := target.Accept()
		if err != nil {
			return
		}
		go func() {
			content, _ := io.ReadAll(conn)
			_ = conn.Close()
			arrived <- content
		}()
	}
}

// asksForMember reports whether the bytes begin with a ClientHello that asks for one of the members.
func asksForMember(data []byte) bool {
	sent, err := wire.ReadHello(bytes.NewReader(data))
	return err == nil && slices.ContainsFunc(
		innerNames, func(pattern string) bool { return wire.MatchServerName(pattern, sent.ServerName) })
}

func expectArrival(t *testing.T, arrived <-chan []byte, data []byte) {
	t.Helper()
	select {
	case content := <-arrived:
		if !bytes.Equal(content, data) {
			t.Fatalf("%d bytes were sent, %d others have arrived", len(data), len(content))
		}
	case <-time.After(patience.Eventually):
		t.Fatal("what asks for a member has not arrived")
	}
}

func expectNothing(t *testing.T, arrived <-chan []byte) {
	t.Helper()
	select {
	case content := <-arrived: // of this one or of one before: both would be wrong
		t.Fatalf("%d bytes have reached the target", len(content))
	default:
	}
}

// clientHello returns the first record of a client that asks for the name.
func clientHello(serverName string) []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		defer client.Close()
		_ = tls.Client(client, &tls.Config{ServerName: serverName}).Handshake()
	}()
	return must(wire.ReadHello(server)).Raw
}
