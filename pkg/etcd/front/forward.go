// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/go-logr/logr"

	"github.com/livecpm/livecpm/pkg/etcd/front/config"
)

// forwarder passes the connections of a further port on to members as they are. It knows nothing of what is spoken
// there, so neither a hold nor a drain concerns a connection that it has joined; a drained member gets no new ones.
type forwarder struct {
	config   config.Forward
	log      logr.Logger
	traffic  *traffic
	metrics  *metrics
	listener net.Listener
	slots    chan struct{}
}

// serve accepts until the listener is closed, and returns when the context ends, with which all connections do.
func (f *forwarder) serve(ctx context.Context) error {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := f.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case f.slots <- struct{}{}:
			open.Go(func() {
				defer func() { <-f.slots }()
				f.join(ctx, conn)
			})
		default:
			f.reset(conn)
		}
	}
}

func (f *forwarder) count(result string) {
	f.metrics.forwarded.WithLabelValues(strconv.Itoa(int(f.config.Port)), result).Inc()
}

func (f *forwarder) reset(conn net.Conn) {
	f.count("reset")
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// join passes bytes on until both sides are done, or the context ends.
func (f *forwarder) join(ctx context.Context, conn net.Conn) {
	target, err := f.dial(ctx)
	if err != nil {
		f.log.V(1).Info("No member took a connection", "reason", err.Error())
		f.reset(conn)
		return
	}
	f.count("joined")
	defer context.AfterFunc(ctx, func() {
		_ = conn.Close()
		_ = target.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { passBytes(target, conn) })
	both.Go(func() { passBytes(conn, target) })
	both.Wait()
	_ = conn.Close()
	_ = target.Close()
}

// dial connects to the port of a member, of several if need be.
func (f *forwarder) dial(ctx context.Context) (net.Conn, error) {
	members := slices.DeleteFunc(f.traffic.pick(), func(m *member) bool { return m.OnlyRequests })
	if len(members) == 0 {
		return nil, errors.New("no member is eligible")
	}
	var failures []error
	for _, m := range members {
		host, _, err := net.SplitHostPort(m.Address)
		if err != nil {
			return nil, err
		}
		conn, err := dialAny(ctx, net.JoinHostPort(host, strconv.Itoa(int(f.config.MemberPort))))
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// passBytes passes on bytes of one direction and its end. If that fails, the other direction ends too.
func passBytes(to, from net.Conn) {
	_, err := io.Copy(to, from)
	closer, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || closer.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
	}
}
