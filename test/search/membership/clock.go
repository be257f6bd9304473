// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// epoch is how long "time passes" lasts: longer than any patience that the agents have.
	epoch = 10 * time.Minute
	// wait is how long whoever waits for the clock waits at least. What it waits for does not happen within a move.
	wait = time.Second
)

// start is any time.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// coarse is a clock of epochs. Whoever waits for it continues at once, later by that time, and each move begins at the
// beginning of the epoch.
type coarse struct {
	clock.Clock

	lock   sync.Mutex
	epochs int
	offset time.Duration
}

// Now implements clock.Clock.
func (c *coarse) Now() time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	return start.Add(time.Duration(c.epochs)*epoch + c.offset)
}

// Since implements clock.Clock.
func (c *coarse) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// After implements clock.Clock.
func (c *coarse) After(d time.Duration) <-chan time.Time {
	c.lock.Lock()
	c.offset += max(d, wait)
	c.lock.Unlock()
	out := make(chan time.Time, 1)
	out <- c.Now()
	return out
}

// old reports whether a time is longer ago than any patience.
func (c *coarse) old(t time.Time) bool { return c.Since(t) > epoch/2 }
