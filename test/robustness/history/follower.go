// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxStreamErrors bounds what is remembered of failed attempts to open a watch.
const maxStreamErrors = 50

// follower reads one stream, across the reconnects that the server or a fault makes necessary.
type follower struct {
	watcher Watcher
	since   func() time.Duration

	mu       sync.Mutex
	stream   *Stream
	revision uint64
}

// start finds the revision to begin at.
func (f *follower) start(ctx context.Context) error {
	revision, err := f.watcher.Revision(ctx)
	if err != nil {
		return fmt.Errorf("failed to find the revision that %s begins at: %w", f.stream.Name, err)
	}
	f.stream.Start, f.revision = revision, revision
	return nil
}

// run watches until the context ends. It continues where it stopped; where the server cannot, it notes the gap and
// begins again at the present state.
func (f *follower) run(ctx context.Context) {
	receiver := Receiver{Opened: f.opened, Deliver: f.deliver, Progress: f.progress}
	for ctx.Err() == nil {
		err := f.watcher.Watch(ctx, f.reached(), receiver)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrGone) {
			err = f.skip(ctx)
		}
		if err != nil {
			f.failed(err)
			_ = pause(ctx, lookAgain)
		}
	}
}

func (f *follower) skip(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultRequestTimeout)
	defer cancel()
	revision, err := f.watcher.Revision(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// A present that lies before what was already delivered is no gap. The next watch will show what is wrong.
	if revision > f.revision {
		f.stream.Gaps = append(f.stream.Gaps, Gap{After: f.revision, Until: revision})
		f.revision = revision
	}
	return nil
}

func (f *follower) reached() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

func (f *follower) opened() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stream.Established++
}

func (f *follower) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.stream.Errors) < maxStreamErrors {
		f.stream.Errors = append(f.stream.Errors, err.Error())
	}
}

func (f *follower) deliver(event Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	event.At = f.since()
	f.stream.Events = append(f.stream.Events, event)
	f.revision = max(f.revision, event.Revision)
}

func (f *follower) progress(revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision = max(f.revision, revision)
}

// result returns the stream as it is now. It is complete if it got as far as the fence.
func (f *follower) result(fence uint64) *Stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	stream := *f.stream
	stream.Events, stream.Gaps = slices.Clone(f.stream.Events), slices.Clone(f.stream.Gaps)
	stream.Complete = fence > 0 && f.revision >= fence
	return &stream
}
