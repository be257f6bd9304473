// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passon_test

import (
	"fmt"
	"net"
	"sync"
)

// link is what the peers of a member reach it through. While it is cut, nothing passes, and nobody learns of it: a
// connection stays open, and what was sent arrives when it is healed.
type link struct {
	listener net.Listener
	target   string

	lock  sync.Mutex
	whole chan struct{} // closed unless it is cut
	conns map[net.Conn]bool
}

func newLink(target string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("failed to listen for peers: %w", err)
	}
	l := &link{listener: listener, target: target, whole: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(l.whole)
	go l.serve()
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.forward(from)
	}
}

func (l *link) forward(from net.Conn) {
	defer l.drop(from)
	l.hold(from)
	<-l.passes()
	to, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer l.drop(to)
	l.hold(to)
	var ends sync.WaitGroup
	ends.Go(func() { l.copy(to, from) })
	ends.Go(func() { l.copy(from, to) })
	ends.Wait()
}

// copy ends both connections with either of them: a peer that is gone has to show.
func (l *link) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			<-l.passes()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) passes() <-chan struct{} {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.whole
}

func (l *link) hold(conn net.Conn) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.conns[conn] = true
}

func (l *link) drop(conn net.Conn) {
	l.lock.Lock()
	defer l.lock.Unlock()
	delete(l.conns, conn)
	_ = conn.Close()
}

func (l *link) cut() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.whole = make(chan struct{})
}

func (l *link) heal() {
	l.lock.Lock()
	defer l.lock.Unlock()
	select {
	case <-l.whole:
	default:
		close(l.whole)
	}
}

func (l *link) close() {
	_ = l.listener.Close()
	l.heal()
	l.lock.Lock()
	defer l.lock.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}
