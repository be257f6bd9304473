// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

const (
	chunkSize   = 32 << 10
	chunksOnWay = 1024
	// helloSize is how much of a connection is read for a ClientHello at most.
	helloSize = 64 << 10
	// recordHandshake is the first byte of a connection that begins with a ClientHello.
	recordHandshake = 22
)

var errCut = errors.New("connection was cut")

// link is one connection through the load balancer.
type link struct {
	to, from        string
	client, backend *net.TCPConn
	faults          *Faults
	// serverName is set as soon as the ClientHello is seen; named is told then.
	serverName atomic.Pointer[string]
	named      func(serverName string)

	// delayed and resets count what faults have done, see Disturbed.
	delayed, resets atomic.Uint64

	mu sync.Mutex // of the sockets' filters
	// filtered are the sockets with a filter, and what the kernel had discarded for them when it was last counted.
	filtered map[*net.TCPConn]uint32
	dropped  uint64
}

// effect returns the faults of the connection as far as it is known what it is.
func (l *link) effect() (effect, <-chan struct{}) {
	c := connection{to: l.to, from: l.from}
	if name := l.serverName.Load(); name != nil {
		c.serverName = *name
	}
	return l.faults.of(c)
}

// enforce lets the kernel drop what the faults in force want dropped, and returns them.
func (l *link) enforce() (effect, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	effect, changed := l.effect()
	var errs []error
	for socket, disturbed := range map[*net.TCPConn]disturbance{
		l.client: effect.upstream, l.backend: effect.downstream,
	} {
		errs = append(errs, l.filter(socket, disturbed.lost()))
	}
	return effect, changed, errors.Join(errs...)
}

// admit holds a new connection back until a handshake would have passed the faults in force: one round trip, and not
// before a cut is over.
func (l *link) admit(ctx context.Context) error {
	begin := time.Now()
	for {
		effect, changed := l.effect()
		frozen := effect.upstream.frozen || effect.downstream.frozen
		left := time.Until(begin.Add(effect.upstream.latency + effect.downstream.latency))
		switch {
		case effect.reset:
			l.resets.Add(1)
			return errCut
		case frozen:
			if err := l.hold(everything); err != nil {
				return err
			}
			left = 1<<63 - 1
		default:
			if err := l.hold(0); err != nil { // the socket has the filter of the listener until then
				return err
			}
			if left <= 0 {
				return nil
			}
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if frozen {
			begin = time.Now() // of the packet that is sent again
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// hold is filter for the client's socket, before there is another one.
func (l *link) hold(percent int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filter(l.client, percent)
}

// run copies until both directions have ended, and passes on what the ends of the connection do: the end of one
// direction, and resets.
func (l *link) run(ctx context.Context) error {
	// The filters are in place when a fault is added, not some time later.
	defer l.faults.watch(func() {
		_, _, _ = l.enforce() // fails for sockets that are closed; the halves see everything else
		l.interrupt()
	})()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, l.interrupt)()
	upstream := &half{link: l, direction: Upstream, dst: l.backend, src: l.client, over: make(chan struct{})}
	downstream := &half{link: l, direction: Downstream, dst: l.client, src: l.backend, over: make(chan struct{})}
	results := make(chan error, 2)
	go func() { results <- upstream.run(ctx, downstream.over) }()
	go func() { results <- downstream.run(ctx, upstream.over) }()
	var first error
	for range 2 {
		if err := <-results; err != nil {
			if first == nil {
				first = err
				_ = l.disturbed() // nobody can count what is closed
			}
			wire.Reset(l.client)
			wire.Reset(l.backend)
			cancel()
		}
	}
	_ = l.disturbed()
	_ = l.client.Close()
	_ = l.backend.Close()
	if errors.Is(first, errCut) {
		l.resets.Add(1)
	}
	return first
}

// interrupt wakes both halves, so that they look at the faults again.
func (l *link) interrupt() {
	now := time.Now()
	_ = l.client.SetReadDeadline(now)
	_ = l.backend.SetReadDeadline(now)
}

// half is one direction of a link.
type half struct {
	*link

	direction Direction
	dst, src  *net.TCPConn
	// over is closed when all of the direction is passed on.
	over chan struct{}
}

func (h *half) run(ctx context.Context, other <-chan struct{}) error {
	var pending []byte
	if h.direction == Upstream {
		var err error
		if pending, err = h.readHello(ctx); err != nil {
			return err
		}
	}
	if err := h.pump(ctx, pending); err != nil {
		return err
	}
	close(h.over)
	h.interrupt() // the other half may be waiting for that
	return h.awaitReset(ctx, other)
}

// settle returns the disturbance that is in force, as soon as packets pass.
func (h *half) settle(ctx context.Context) (disturbance, error) {
	for {
		// The deadline is cleared before the look at the faults: a change in between interrupts the copy at once.
		if err := h.src.SetReadDeadline(time.Time{}); err != nil {
			return disturbance{}, err
		}
		if err := ctx.Err(); err != nil {
			return disturbance{}, err
		}
		effect, changed, err := h.enforce()
		if err != nil {
			return disturbance{}, err
		}
		if effect.reset {
			return disturbance{}, errCut
		}
		if disturbed := effect.of(h.direction); !disturbed.frozen {
			return disturbed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// readHello reads the begin of a connection, which it returns, until the server name is known or there is none. Nothing
// is passed on before that, so that a fault for a server name is in force for its ClientHello too. The answer of a
// server that speaks first does not wait.
func (h *half) readHello(ctx context.Context) ([]byte, error) {
	var begin []byte
	chunk := make([]byte, chunkSize)
	for {
		if _, err := h.settle(ctx); err != nil {
			return nil, err
		}
		n, err := h.src.Read(chunk)
		begin = append(begin, chunk[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return begin, nil // it is read again
		}
		if err != nil {
			return nil, err
		}
		if name, complete := serverNameOf(begin); complete {
			h.serverName.Store(&name)
			h.named(name)
			h.interrupt()
			return begin, nil
		}
	}
}

// serverNameOf returns the server name of a connection that begins like that, and whether there is nothing more to
// learn. Connections without a ClientHello have none.
func serverNameOf(begin []byte) (name string, complete bool) {
	if len(begin) == 0 {
		return "", false
	}
	if begin[0] != recordHandshake {
		return "", true
	}
	hello, err := wire.ReadHello(bytes.NewReader(begin))
	if err == nil {
		return hello.ServerName, true
	}
	short := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return "", !short || len(begin) >= helloSize
}

// pump copies one direction, in the manner that the faults in force demand.
func (h *half) pump(ctx context.Context, pending []byte) error {
	for {
		disturbed, err := h.settle(ctx)
		if err != nil {
			return err
		}
		if disturbed.latency > 0 {
			err = h.copyDelayed(ctx, pending)
			pending = nil // written, or the connection is lost
		} else {
			pending, err = h.copyPlain(pending)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return err
		}
		_ = h.dst.CloseWrite() // fails only when dst is gone, which the other direction reports
		return nil
	}
}

// copyPlain copies without delay. It could let the kernel splice from socket to socket, but then nobody would see what
// arrives after a fault has come and before the copy is interrupted: that is returned, to be delayed.
func (h *half) copyPlain(pending []byte) (late []byte, err error) {
	if len(pending) > 0 {
		if _, err := h.dst.Write(pending); err != nil {
			return nil, err
		}
	}
	data := make([]byte, chunkSize)
	for {
		n, err := h.src.Read(data)
		if (n > 0 || errors.Is(err, io.EOF)) && h.latency() > 0 {
			return data[:n], os.ErrDeadlineExceeded // the end is read again
		}
		if n > 0 {
			if _, err := h.dst.Write(data[:n]); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// copyDelayed delivers each chunk a fixed time after it arrived, so that latency rises and throughput stays. What is on
// its way when reading ends is still delivered. The end travels as long as the data, in whatever manner it comes.
func (h *half) copyDelayed(ctx context.Context, pending []byte) error {
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
				err = sleepUntil(ctx, c.due)
			}
			if err == nil {
				_, err = h.dst.Write(c.data)
				h.delayed.Add(1)
			}
		}
		written <- err
	}()
	if len(pending) > 0 {
		way <- chunk{h.due(), pending}
	}
	var readErr error
	for readErr == nil {
		data := make([]byte, chunkSize)
		var n int
		if n, readErr = h.src.Read(data); n > 0 {
			way <- chunk{h.due(), data[:n]}
		}
	}
	var ended error
	if !errors.Is(readErr, os.ErrDeadlineExceeded) {
		ended = sleepUntil(ctx, h.due())
	}
	close(way)
	if err := errors.Join(<-written, ended); err != nil {
		return err
	}
	if readErr == io.EOF {
		return nil
	}
	return readErr
}

// latency returns that which is in force now. The faults may have changed since a read began.
func (h *half) latency() time.Duration {
	effect, _ := h.effect()
	return effect.of(h.direction).latency
}

// due returns when that arrives on the other side which has come just now.
func (h *half) due() time.Time { return time.Now().Add(h.latency()) }

func sleepUntil(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitReset waits for the end of the other direction, and returns an error if the sender, which has sent its end,
// resets the connection before. Nothing can be read any more, and nothing may be there to be written: only the socket's
// state tells.
func (h *half) awaitReset(ctx context.Context, other <-chan struct{}) error {
	raw, err := h.src.SyscallConn()
	if err != nil {
		return err
	}
	for {
		if _, err := h.settle(ctx); err != nil {
			return err
		}
		select {
		case <-other:
			return nil
		default:
		}
		var lost error
		err = raw.Read(func(fd uintptr) bool {
			lost = socketError(fd)
			return lost != nil
		})
		if lost != nil {
			return errors.Join(lost, sleepUntil(ctx, h.due()))
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// socketError returns what the kernel has to say of a connection that is lost.
func socketError(fd uintptr) error {
	code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if code != 0 {
		return syscall.Errno(code)
	}
	return nil
}
