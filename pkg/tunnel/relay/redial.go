// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// etcd dials a member that does not answer about fifty times per second, all of its streams and posts together. By way
// of the relays such an attempt costs a mutual handshake of theirs before the far one can find that nobody listens
// (with RSA keys on both sides: four tenths of a core), at the very time at which members stop and messages must pass
// quickly. So the near relay answers for the far one for a moment after it has been told.
//
// It does not answer at once. A dialer that is refused tries again a tenth of a second later, and looks up the name of
// the member each time, with up to eight questions to the DNS server: more work than the attempt itself. One that waits
// for its answer does nothing.
//
// Only routes with a pause do that, and only those with one target have one: behind a service another member may be
// found the next time.

// redials are the routes with a pause, by the server name of the other relay.
type redials map[string]*redial

// redial is what is known of the target of a route.
type redial struct {
	clock clock.PassiveClock
	pause time.Duration

	lock sync.Mutex
	// failed is when the last attempt that counts failed, and answered when the target answered last.
	failed, answered time.Time
}

func newRedials(near []config.Near, clk clock.PassiveClock) redials {
	out := redials{}
	for _, listener := range near {
		for _, route := range listener.Routes {
			if pause := cmp.Or(route.RedialPause.Duration, listener.RedialPause.Duration); pause > 0 {
				out[route.Remote.ServerName] = &redial{clock: clk, pause: pause}
			}
		}
	}
	return out
}

// begin begins an attempt to reach the target of the route, unless the route pauses: for so long, if it is more than 0.
func (r redials) begin(route string) (attempt, time.Duration) {
	target, ok := r[route]
	if !ok {
		return attempt{}, 0
	}
	target.lock.Lock()
	defer target.lock.Unlock()
	now := target.clock.Now()
	return attempt{target, now}, target.pause - now.Sub(target.failed)
}

// attempt is one attempt to reach the target of a route. That of a route without a pause has no target.
type attempt struct {
	target *redial
	begun  time.Time
}

// failed lets the route pause. Attempts that began before the last failure or the last answer tell nothing new: over a
// long distance they fail one after the other, and a pause for each would keep a member out that has come back
// meanwhile.
func (a attempt) failed() {
	if a.target == nil {
		return
	}
	a.target.lock.Lock()
	defer a.target.lock.Unlock()
	if a.begun.Before(a.target.failed) || a.begun.Before(a.target.answered) {
		return
	}
	a.target.failed = a.target.clock.Now()
}

func (a attempt) succeeded() {
	a.target.lock.Lock()
	defer a.target.lock.Unlock()
	a.target.failed, a.target.answered = time.Time{}, a.target.clock.Now()
}

// watch returns a connection to the other relay that settles the attempt. That the handshake with the other relay has
// succeeded says nothing of the target: the first byte from there does.
func (a attempt) watch(conn *tls.Conn) wire.Conn {
	if a.target == nil {
		return conn
	}
	return &watched{Conn: conn, attempt: a}
}

type watched struct {
	*tls.Conn

	attempt attempt
	settled atomic.Bool
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		if w.settle() {
			w.attempt.succeeded()
		}
	} else if err != nil {
		w.ended(err)
	}
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if err != nil {
		w.ended(err)
	}
	return n, err
}

// ended takes the end of the connection into account. Before the first byte it is the other relay's way to say that
// nobody listens, whether the gateway between them passes that on as a reset or as an ordinary end.
func (w *watched) ended(err error) {
	if errors.Is(err, net.ErrClosed) { // by this relay itself, because the dialer has gone or the relay ends
		return
	}
	if w.settle() {
		w.attempt.failed()
	}
}

func (w *watched) settle() bool { return !w.settled.Load() && w.settled.CompareAndSwap(false, true) }
