// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/livecpm/livecpm/test/robustness/history"
)

// objects is what a writing asks of the shoot.
type objects interface {
	Create(ctx context.Context, key, value string) (uint64, error)
	Get(ctx context.Context, key string) (history.Object, error)
}

// writing is one object that is to be there in the end. An attempt whose answer is lost may have been carried out: the
// next one is then refused because the object exists, and only a look at it tells.
type writing struct {
	store objects
	key   string
	// unsure is set once an attempt has ended without a clear answer.
	unsure bool
}

// attempt creates the object, or finds it as an earlier attempt has left it. It returns its revision.
func (w *writing) attempt(ctx context.Context) (uint64, error) {
	revision, err := w.store.Create(ctx, w.key, w.key)
	if !errors.Is(err, history.ErrRejected) {
		w.unsure = w.unsure || err != nil
		return revision, err
	}
	if !w.unsure {
		return 0, fmt.Errorf("%s is there already, and nobody has written it: %w", w.key, err)
	}
	found, err := w.store.Get(ctx, w.key)
	if err != nil {
		return 0, err
	}
	if found.Value != w.key {
		return 0, fmt.Errorf("%s has the value %q, which nobody has written", w.key, found.Value)
	}
	return found.Revision, nil
}
