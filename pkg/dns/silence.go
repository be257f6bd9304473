// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// Silence bounds the wait for name servers that do not answer. It cannot be known what such a server tells others. It
// has had the same change as the others by the time that providers name for it, and if it answers nobody, caches ask
// the others. So it is waited for, but one that is down for days does not hold a migration for days.
//
// It is not safe for concurrent use.
type Silence struct {
	clock clock.PassiveClock
	bound time.Duration
	// since is when each of them was first asked without an answer.
	since map[string]time.Time
}

// NewSilence returns a Silence that waits for each name server for as long as the bound.
func NewSilence(clock clock.PassiveClock, bound time.Duration) *Silence {
	return &Silence{clock: clock, bound: bound, since: map[string]time.Time{}}
}

// Begin forgets for how long name servers have been silent.
func (s *Silence) Begin() { clear(s.since) }

// Bear takes for each name server why it did not answer, or nil. It returns nil if none is silent that is still to be
// waited for, and otherwise an error that names them. At least half of them have to answer, without any bound.
func (s *Silence) Bear(servers map[string]error) error {
	var silent, waiting []string
	for _, server := range slices.Sorted(maps.Keys(servers)) {
		err := servers[server]
		if err == nil {
			delete(s.since, server)
			continue
		}
		silent = append(silent, err.Error())
		if _, known := s.since[server]; !known {
			s.since[server] = s.clock.Now()
		}
		if s.clock.Since(s.since[server]) < s.bound {
			waiting = append(waiting, err.Error())
		}
	}
	switch {
	case 2*len(silent) > len(servers):
		return fmt.Errorf("%d of %d name servers do not answer: %s", len(silent), len(servers),
			strings.Join(silent, "; "))
	case len(waiting) > 0:
		return fmt.Errorf("%s (waiting for it for at most %s)", strings.Join(waiting, "; "), s.bound)
	}
	return nil
}

// Borne returns the name servers that were silent when they were asked last.
func (s *Silence) Borne() []string { return slices.Sorted(maps.Keys(s.since)) }
