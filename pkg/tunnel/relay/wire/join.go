// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// bufferSize is what an idle connection costs for each of its two directions, so it bounds what a relay with all its
// connections open needs. A TLS record, which is what one read of the outer layer yields, has at most 16 KiB.
const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// Conn is a connection whose sending half can be closed alone: *net.TCPConn and *tls.Conn are such.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Reset closes a connection so that the other end learns at once, with an RST instead of an orderly end. A connection
// that is not TCP underneath is just closed.
func Reset(conn net.Conn) {
	inner := conn
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		inner = wrapped.NetConn()
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = inner.Close()
}

// Join copies in both directions until both are at their end, and closes both connections. The end of one direction is
// passed on as a half-close while the other continues; a failure of either resets both. sent and received, which may be
// nil, are told of every chunk that went from near to far and back.
func Join(near, far Conn, sent, received func(n int)) error {
	results := make(chan error, 2)
	go func() { results <- copyHalf(far, near, sent) }()
	go func() { results <- copyHalf(near, far, received) }()
	var errs []error
	for range 2 {
		if err := <-results; err != nil {
			errs = append(errs, err)
			Reset(near) // makes the other direction fail too
			Reset(far)
		}
	}
	if len(errs) > 0 {
		return errs[0] // the second one is only the echo of our reset
	}
	return errors.Join(ignoreClosed(near.Close()), ignoreClosed(far.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func copyHalf(dst, src Conn, count func(n int)) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		n, err := src.Read(*buffer)
		if n > 0 {
			if _, err := dst.Write((*buffer)[:n]); err != nil {
				return err
			}
			if count != nil {
				count(n)
			}
		}
		if errors.Is(err, io.EOF) {
			// The other end may be gone entirely by now; then there is nobody left to tell.
			if err := dst.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) && !isNotConnected(err) {
				return err
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// KeepAlive is short enough that a dead peer is noticed in about fifteen seconds; tunnelled etcd streams would
// otherwise hang on it far longer than an election takes.
var KeepAlive = net.KeepAliveConfig{Enable: true, Idle: 6 * time.Second, Interval: 3 * time.Second, Count: 3}
