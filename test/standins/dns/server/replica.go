// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Replica is another name server of all zones, as every provider has several. It takes up what has changed later than
// the first one, and may not answer at all for some time.
type Replica struct {
	// Address is given out as the address of ns2.<zone>, ns3.<zone> and so on.
	Address netip.Addr
	// Lag is how long after the first server this one knows of a change. After a restart of the server it knows all.
	Lag time.Duration
	// Silence is for how long after each change it answers nothing.
	Silence time.Duration
}

// ReplicaHandler answers for the replica of the number, from 0. Updates are for the first server only.
func (s *Server) ReplicaHandler(number int) dns.Handler {
	replica := s.replicas[number]
	return dns.HandlerFunc(func(w dns.ResponseWriter, request *dns.Msg) {
		now := s.store.clock.Now()
		if replica.Silence > 0 && now.Sub(s.store.lastChange()) < replica.Silence {
			return
		}
		response := new(dns.Msg).SetReply(request)
		if request.Opcode == dns.OpcodeUpdate {
			response.Rcode = dns.RcodeRefused
		} else {
			s.answer(response, request.Question[0], s.store.at(now.Add(-replica.Lag)))
		}
		s.send(w, request, response)
	})
}

// snapshot is what a name server knows.
type snapshot struct {
	since  time.Time
	serial uint32
	sets   recordSets
}

// now is what the first server knows.
func (s *store) now() snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.history[len(s.history)-1]
}

// lastChange is when records changed last; the zero time if they have not since the start.
func (s *store) lastChange() time.Time { return s.now().since }

// at is what a server knows that was up to date at the given time. Sets are never written into once they are known.
func (s *store) at(when time.Time) snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := len(s.history) - 1; i > 0; i-- {
		if !s.history[i].since.After(when) {
			return s.history[i]
		}
	}
	return s.history[0]
}

// remember adds what is known from now on, and forgets what no replica answers with any more. The lock is held.
func (s *store) remember(latest snapshot) {
	s.history = append(s.history, latest)
	for len(s.history) > 1 && !s.history[1].since.After(latest.since.Add(-s.keep)) {
		s.history = s.history[1:]
	}
}
