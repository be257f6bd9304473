// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package credentials ends a program when the kubeconfig that it has started with is replaced: credentials for the garden
// are rotated, and clients keep those that they were made with.
package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
)

// CheckPeriod is how often the file is compared with what the program has started with.
const CheckPeriod = 30 * time.Second

// ErrChanged ends the program, so that its Deployment starts it with the new credentials.
var ErrChanged = errors.New("the kubeconfig for the garden has changed, restarting with it")

// Watcher is a runnable of the manager that ends with ErrChanged when the kubeconfig has changed.
type Watcher struct {
	path    string
	content []byte
	clock   clock.WithTicker
}

// NewWatcher returns a watcher of the file as it is now.
func NewWatcher(path string, c clock.WithTicker) (*Watcher, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the path is from the program's own configuration.
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the garden: %w", err)
	}
	return &Watcher{path: path, content: content, clock: c}, nil
}

// Start implements manager.Runnable.
func (w *Watcher) Start(ctx context.Context) error {
	ticker := w.clock.NewTicker(CheckPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			// An unreadable or empty file is one that is about to be replaced.
			content, err := os.ReadFile(w.path)
			if err == nil && len(content) > 0 && !bytes.Equal(content, w.content) {
				return ErrChanged
			}
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica watches.
func (w *Watcher) NeedLeaderElection() bool { return false }
