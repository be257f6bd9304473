// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"errors"
	"sync"

	"github.com/livecpm/livecpm/test/robustness/history"
)

var errBroken = errors.New("the connection broke off")

// memory is a correct store, with faults that can be switched on.
type memory struct {
	mu       sync.Mutex
	revision uint64
	objects  map[string]history.Object
	log      []history.Event
	changed  chan struct{}
	writes   int

	// swallow makes a write be acknowledged and not carried out.
	swallow func(write int) bool
	// breakOff makes a write fail; whether it is carried out is the second result.
	breakOff func(write int) (fails, carriedOut bool)
	// hide keeps an event from being delivered.
	hide func(event history.Event) bool
	// compacted is the revision up to which watches cannot begin any more.
	compacted uint64
}

func newMemory() *memory {
	return &memory{revision: 100, objects: map[string]history.Object{}, changed: make(chan struct{})}
}

// once picks a single write.
func once(at int) func(int) bool { return func(n int) bool { return n == at } }

func (m *memory) Get(_ context.Context, key string) (history.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok := m.objects[key]
	if !ok {
		return history.Object{}, history.ErrAbsent
	}
	return object, nil
}

func (m *memory) Create(_ context.Context, key, value string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[key]; ok {
		return 0, history.ErrRejected
	}
	return m.write(history.Event{Type: history.Added, Key: key, Value: value})
}

func (m *memory) Update(_ context.Context, key string, expected history.Object, value string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if object, ok := m.objects[key]; !ok || object != expected {
		return 0, history.ErrRejected
	}
	return m.write(history.Event{Type: history.Modified, Key: key, Value: value})
}

func (m *memory) Delete(_ context.Context, key string, expected history.Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok := m.objects[key]
	if !ok || object != expected {
		return history.ErrRejected
	}
	_, err := m.write(history.Event{Type: history.Deleted, Key: key, Value: object.Value})
	return err
}

func (m *memory) write(event history.Event) (uint64, error) {
	m.writes++
	fails, carriedOut := false, true
	if m.breakOff != nil {
		fails, carriedOut = m.breakOff(m.writes)
	}
	if fails && !carriedOut {
		return 0, errBroken
	}
	m.revision++
	if m.swallow == nil || !m.swallow(m.writes) {
		event.Revision = m.revision
		m.log = append(m.log, event)
		m.objects[event.Key] = history.Object{Value: event.Value, Revision: m.revision}
		if event.Type == history.Deleted {
			delete(m.objects, event.Key)
		}
		close(m.changed)
		m.changed = make(chan struct{})
	}
	if fails {
		return 0, errBroken
	}
	return m.revision, nil
}

func (m *memory) acknowledged() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

func (m *memory) Revision(context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision, nil
}

// Watch ends after a few events, so that streams have to continue where they stopped.
func (m *memory) Watch(ctx context.Context, after uint64, receiver history.Receiver) error {
	const eventsPerWatch = 40

	m.mu.Lock()
	gone := after < m.compacted
	m.mu.Unlock()
	if gone {
		return history.ErrGone
	}
	receiver.Opened()
	for delivered := 0; delivered < eventsPerWatch; {
		m.mu.Lock()
		changed, upTo := m.changed, m.revision
		events := append([]history.Event{}, m.log...)
		m.mu.Unlock()
		for _, event := range events {
			if event.Revision > after && (m.hide == nil || !m.hide(event)) {
				receiver.Deliver(event)
				delivered++
			}
		}
		after = upTo
		receiver.Progress(upTo)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
	return nil
}
