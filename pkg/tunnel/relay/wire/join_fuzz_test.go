// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// halfConn is one end of a connection in memory whose sending half can be closed alone.
type halfConn struct {
	net.Conn

	in  *io.PipeReader
	out *io.PipeWriter
}

func (c halfConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c halfConn) Write(p []byte) (int, error) { return c.out.Write(p) }
func (c halfConn) CloseWrite() error           { return c.out.Close() }
func (c halfConn) Close() error {
	_ = c.in.CloseWithError(net.ErrClosed)
	return c.out.CloseWithError(net.ErrClosed)
}

func memoryPair() (a, b halfConn) {
	there, back := halfConn{}, halfConn{}
	back.in, there.out = io.Pipe()
	there.in, back.out = io.Pipe()
	return there, back
}

// FuzzJoin sends both ways at once, cut into pieces of any size. Both ends must get what the other one has sent, each
// the end of it after the last byte, and the counts must be right.
func FuzzJoin(f *testing.F) {
	f.Add([]byte("question"), []byte("the answer"), uint16(3), uint16(1))
	f.Add([]byte{}, bytes.Repeat([]byte("snapshot"), 20_000), uint16(1), uint16(60_000))
	f.Add([]byte{}, []byte{}, uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, question, answer []byte, step, back uint16) {
		client, near := memoryPair()
		far, server := memoryPair()
		var sent, received int
		done := make(chan error, 1)
		go func() { done <- wire.Join(near, far, func(n int) { sent += n }, func(n int) { received += n }) }()

		got := make(chan []byte, 2)
		for _, way := range []struct {
			from, to halfConn
			content  []byte
			step     uint16
		}{{client, server, question, step}, {server, client, answer, back}} {
			go func() {
				for rest := way.content; len(rest) > 0; {
					n := min(len(rest), int(way.step)+1)
					if _, err := way.from.Write(rest[:n]); err != nil {
						break
					}
					rest = rest[n:]
				}
				_ = way.from.CloseWrite()
			}()
			go func() {
				content, err := io.ReadAll(way.to)
				if err == nil && !bytes.Equal(content, way.content) {
					t.Errorf("%d bytes have become %d others", len(way.content), len(content))
				}
				if err != nil {
					t.Errorf("failed to read %d bytes: %v", len(way.content), err)
				}
				got <- content
			}()
		}
		<-got
		<-got
		if err := <-done; err != nil {
			t.Errorf("failed to join: %v", err)
		}
		if sent != len(question) || received != len(answer) {
			t.Errorf("counted %d and %d bytes, there were %d and %d", sent, received, len(question), len(answer))
		}
	})
}
