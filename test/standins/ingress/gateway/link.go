// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

const (
	chunkSize   = 16 << 10
	chunksOnWay = 1024
)

var errCut = errors.New("connection was cut")

// link is one proxied connection.
type link struct {
	serverName      string
	client, backend *net.TCPConn
	faults          *Faults
}

// run copies until both directions have ended. hello goes to the backend before anything else.
func (l *link) run(ctx context.Context, hello []byte) error {
	defer l.faults.watch(l)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, l.interrupt)()
	results := make(chan error, 2)
	go func() { results <- l.pump(ctx, l.backend, l.client, hello) }()
	go func() { results <- l.pump(ctx, l.client, l.backend, nil) }()
	var first error
	for range 2 {
		if err := <-results; err != nil {
			if first == nil {
				first = err
			}
			wire.Reset(l.client)
			wire.Reset(l.backend)
			cancel()
		}
	}
	_ = l.client.Close()
	_ = l.backend.Close()
	return first
}

// interrupt wakes both pumps, so that they look at the faults again.
func (l *link) interrupt() {
	now := time.Now()
	_ = l.client.SetReadDeadline(now)
	_ = l.backend.SetReadDeadline(now)
}

// pump copies one direction, in the manner that the faults in force demand.
func (l *link) pump(ctx context.Context, dst, src *net.TCPConn, pending []byte) error {
	for {
		// The deadline is cleared before the look at the faults: a change in between interrupts the copy at once.
		if err := src.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fault, changed := l.faults.of(l.serverName)
		var err error
		switch {
		case fault.Cut == CutReset:
			return errCut
		case fault.Cut == CutFreeze:
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		case fault.Latency.Duration > 0:
			err = copyDelayed(dst, src, pending, fault.Latency.Duration)
		default:
			err = copyPlain(dst, src, pending)
		}
		pending = nil // written, or the connection is lost
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return err
		}
		_ = dst.CloseWrite() // fails only when dst is gone, which the other direction reports
		return nil
	}
}

// copyPlain lets the kernel splice from socket to socket. An expired deadline loses nothing: it is only noticed when
// nothing is on its way.
func copyPlain(dst, src *net.TCPConn, pending []byte) error {
	if len(pending) > 0 {
		if _, err := dst.Write(pending); err != nil {
			return err
		}
	}
	_, err := io.Copy(dst, src)
	return err
}

// copyDelayed delivers each chunk a fixed time after it arrived, so that latency rises and throughput stays. What is on
// its way when reading ends is still delivered.
func copyDelayed(dst, src *net.TCPConn, pending []byte, latency time.Duration) error {
	type chunk struct {
		due  time.Time
		data []byte
	}
	way := make(chan chunk, chunksOnWay)
	written := make(chan error, 1)
	go func() {
		var err error
		for c := range way {
			if err == nil {
				time.Sleep(time.Until(c.due))
				_, err = dst.Write(c.data)
			}
		}
		written <- err
	}()
	if len(pending) > 0 {
		way <- chunk{time.Now().Add(latency), pending}
	}
	var readErr error
	for readErr == nil {
		data := make([]byte, chunkSize)
		var n int
		if n, readErr = src.Read(data); n > 0 {
			way <- chunk{time.Now().Add(latency), data[:n]}
		}
	}
	if readErr == io.EOF { // the end travels as long as the data
		time.Sleep(latency)
	}
	close(way)
	if err := <-written; err != nil {
		return err
	}
	if readErr == io.EOF {
		return nil
	}
	return readErr
}
