// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
)

// Object is what the store holds under a key.
type Object struct {
	Value    string
	Revision uint64
}

var (
	// ErrRejected is the answer to a write whose demand on the object is not met.
	ErrRejected = errors.New("the object is not as the write demands")
	// ErrAbsent is the answer to a read of an object that does not exist.
	ErrAbsent = errors.New("the object does not exist")
	// ErrGone is the answer to a watch whose revision the server does not have any more.
	ErrGone = errors.New("the revision is gone")
)

// Store is what a client of the history talks to. Any error but the ones above leaves open what became of a write. No
// method may send a request again by itself.
type Store interface {
	Get(ctx context.Context, key string) (Object, error)
	// Create fails with ErrRejected if the object exists.
	Create(ctx context.Context, key, value string) (revision uint64, err error)
	// Update and Delete fail with ErrRejected if the object is not the expected one.
	Update(ctx context.Context, key string, expected Object, value string) (revision uint64, err error)
	Delete(ctx context.Context, key string, expected Object) error
}

// Watcher is what a stream is read from.
type Watcher interface {
	// Revision returns the present revision of the store.
	Revision(ctx context.Context) (uint64, error)
	// Watch hands the receiver each event after the revision until the server ends the watch or the context ends. The
	// orderly end of an established watch is no error. It fails with ErrGone if the server cannot begin at the
	// revision.
	Watch(ctx context.Context, after uint64, receiver Receiver) error
}

// Receiver takes what a watch delivers.
type Receiver struct {
	// Opened is called once the watch is established.
	Opened func()
	// Deliver is called for each event.
	Deliver func(Event)
	// Progress is called with revisions up to which there is nothing more to deliver.
	Progress func(revision uint64)
}
