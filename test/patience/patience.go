// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package patience says how long tests wait for what must come, and lets a time be over without waiting for it. None of
// these times is asserted: they are so long that a machine which is busy with other things does not fail a test, and
// only what never comes does.
package patience

import (
	"context"
	"sync"
	"time"
)

const (
	// Eventually is how long a spec waits for what it expects, if it does not say so itself.
	Eventually = 3 * time.Minute
	// Start is how long each component of a control plane may take to start.
	Start = 2 * time.Minute
	// Stop is how long each of them may take to end.
	Stop = time.Minute
)

// expiring is a context whose deadline passes when it is told to.
type expiring struct {
	context.Context
	done chan struct{}
}

// Expiring returns a context and a function that lets its deadline pass, at the first call. A test calls that function
// when what is to happen in time has happened, and needs no bound that is too short on a busy machine and too long on
// every other.
func Expiring(parent context.Context) (ctx context.Context, expire func()) {
	e := expiring{Context: parent, done: make(chan struct{})}
	return e, sync.OnceFunc(func() { close(e.done) })
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
