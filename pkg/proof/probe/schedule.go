// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"sync"
	"time"
)

// pacer takes a slot at a fixed rate and works on it. A tick that finds no free slot is missed and counted: the load is
// bounded, and a server that hangs cannot hide behind a load that quietly became smaller.
type pacer[T any] struct {
	// rate is how often per second.
	rate int
	// slots are what is free to be worked on.
	slots chan T
	// missed counts a tick that found no free slot.
	missed func()
	// work works on a slot, which is free again when it returns.
	work func(T)
}

// run works until the context ends, and then until all slots are free.
func (p pacer[T]) run(ctx context.Context) {
	if p.rate <= 0 {
		return
	}
	ticker := time.NewTicker(time.Second / time.Duration(p.rate))
	defer ticker.Stop()

	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case slot := <-p.slots:
			group.Go(func() {
				defer func() { p.slots <- slot }()
				p.work(slot)
			})
		default:
			p.missed()
		}
	}
}
