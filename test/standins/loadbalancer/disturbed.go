// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disturbed counts what faults have done to the connections of a kind since the load balancer began, those that have
// ended included. It is how somebody who asked for a fault finds out whether it has met anything.
type Disturbed struct {
	From string `json:"from"`
	// ServerName is that of the ClientHello, if there was one.
	ServerName string `json:"serverName,omitempty"`
	// Dropped are packets that the kernel discarded, Delayed deliveries that came late by the latency, and Reset
	// connections that were reset.
	Dropped uint64 `json:"dropped,omitempty"`
	Delayed uint64 `json:"delayed,omitempty"`
	Reset   uint64 `json:"reset,omitempty"`
}

// add adds the counts of the other one.
func (d *Disturbed) add(other Disturbed) {
	d.Dropped, d.Delayed, d.Reset = d.Dropped+other.Dropped, d.Delayed+other.Delayed, d.Reset+other.Reset
}

// none reports whether nothing was counted.
func (d *Disturbed) none() bool { return d.Dropped+d.Delayed+d.Reset == 0 }

// everything is the percentage of packets that a cut loses.
const everything = 100

// filter lets the kernel discard that percentage of the packets that arrive for a socket of the link, and counts them.
// l.mu is held.
func (l *link) filter(socket *net.TCPConn, percent int) error {
	if percent == 0 {
		l.countDropped(socket)
		delete(l.filtered, socket)
		return pass(socket)
	}
	if _, there := l.filtered[socket]; !there {
		if l.filtered == nil {
			l.filtered = map[*net.TCPConn]uint32{}
		}
		l.filtered[socket], _ = droppedOf(socket)
	}
	return lose(socket, percent)
}

// countDropped takes over what the kernel has discarded for the socket since the last time. l.mu is held.
func (l *link) countDropped(socket *net.TCPConn) {
	before, filtered := l.filtered[socket]
	if !filtered {
		return
	}
	if now, err := droppedOf(socket); err == nil { // a socket that is closed was counted before that
		l.dropped += uint64(now - before)
		l.filtered[socket] = now
	}
}

// disturbed returns what faults have done to the connection.
func (l *link) disturbed() Disturbed {
	l.mu.Lock()
	defer l.mu.Unlock()
	for socket := range l.filtered {
		l.countDropped(socket)
	}
	what := Disturbed{From: l.from, Dropped: l.dropped, Delayed: l.delayed.Load(), Reset: l.resets.Load()}
	if name := l.serverName.Load(); name != nil {
		what.ServerName = *name
	}
	return what
}

// droppedOf returns how many packets for the socket the kernel has discarded.
func droppedOf(socket syscall.Conn) (uint32, error) {
	// The last one is SK_MEMINFO_DROPS, see linux/sock_diag.h.
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	err := control(socket, func(fd int) error {
		// #nosec G103 -- x/sys has no function for this option.
		if _, _, code := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); code != 0 {
			return os.NewSyscallError("getsockopt", code)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("failed to count the packets that were dropped: %w", err)
	}
	return info[len(info)-1], nil
}

// disturbances are what faults have done to connections, by their kind.
type disturbances map[connection]Disturbed

func (d disturbances) add(what Disturbed) {
	if what.none() {
		return
	}
	kind := connection{from: what.From, serverName: what.ServerName}
	known := d[kind]
	known.From, known.ServerName = what.From, what.ServerName
	known.add(what)
	d[kind] = known
}

// disturbed sums up what has happened to connections, those that have ended included. f.mu is held.
func (f *Front) disturbed() []Disturbed {
	sum := maps.Clone(f.ended)
	for l := range f.present {
		sum.add(l.disturbed())
	}
	return slices.SortedFunc(maps.Values(sum), func(a, b Disturbed) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.ServerName, b.ServerName))
	})
}

// enter and leave keep the links that there are, so that what has happened to them can be counted.
func (f *Front) enter(l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present[l] = struct{}{}
}

func (f *Front) leave(l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.present, l)
	f.ended.add(l.disturbed())
}
