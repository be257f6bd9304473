// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"container/list"
	"net"
	"sync"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// strangers are the connections of one port that have not shown yet who they are. They are apart from the relay's
// slots: whoever only connects and says nothing must not keep etcd's own connections out. Nor must he keep new ones
// out, so where there are too many, the oldest gives way. A handshake takes a few round trips; those who flood a port
// would have to be faster than that to hit anybody but themselves.
type strangers struct {
	limit int

	mu      sync.Mutex
	waiting *list.List // of *permit, the oldest first
}

func newStrangers(limit int32) *strangers {
	return &strangers{limit: int(limit), waiting: list.New()}
}

// admit takes a connection in. If another one had to give way for it, it is reset, and admit says so.
func (s *strangers) admit(conn net.Conn, slots chan struct{}) (p *permit, overflow bool) {
	p = &permit{strangers: s, slots: slots, conn: conn}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.Len() >= s.limit {
		oldest := s.waiting.Front()
		s.waiting.Remove(oldest)
		evicted := oldest.Value.(*permit)
		evicted.place, evicted.evicted = nil, true
		wire.Reset(evicted.conn)
		overflow = true
	}
	p.place = s.waiting.PushBack(p)
	return p, overflow
}

// leave reports whether the connection was still among the strangers.
func (s *strangers) leave(p *permit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.place == nil {
		return false
	}
	s.waiting.Remove(p.place)
	p.place = nil
	return true
}

// permit is a connection's place under the relay's limits.
type permit struct {
	strangers *strangers
	slots     chan struct{}
	conn      net.Conn
	slot      bool

	// Both belong to strangers and its lock.
	place   *list.Element
	evicted bool
}

// establish moves a connection from the strangers to the relay's slots, if it is still there and a slot is free.
func (p *permit) establish() bool {
	if !p.strangers.leave(p) {
		return false
	}
	select {
	case p.slots <- struct{}{}:
		p.slot = true
	default:
	}
	return p.slot
}

// gaveWay reports whether the connection was reset for the sake of a newer one.
func (p *permit) gaveWay() bool {
	p.strangers.mu.Lock()
	defer p.strangers.mu.Unlock()
	return p.evicted
}

func (p *permit) release() {
	p.strangers.leave(p)
	if p.slot {
		<-p.slots
	}
}
