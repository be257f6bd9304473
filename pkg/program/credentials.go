// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
)

// CredentialsPeriod is how often the file is compared with what the program has started with.
const CredentialsPeriod = 30 * time.Second

// ErrCredentialsChanged ends the program, so that its Deployment starts it with the new credentials.
var ErrCredentialsChanged = errors.New("the kubeconfig for the garden has changed, restarting with it")

// CredentialsWatcher is a runnable of the manager that ends with ErrCredentialsChanged when the kubeconfig for the
// garden is replaced: credentials are rotated, and clients keep those that they were made with.
type CredentialsWatcher struct {
	path    string
	content []byte
	clock   clock.WithTicker
}

// NewCredentialsWatcher returns a watcher of the file as it is now.
func NewCredentialsWatcher(path string, c clock.WithTicker) (*CredentialsWatcher, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the path is from the program's own configuration.
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the garden: %w", err)
	}
	return &CredentialsWatcher{path: path, content: content, clock: c}, nil
}

// Start implements manager.Runnable.
func (w *CredentialsWatcher) Start(ctx context.Context) error {
	ticker := w.clock.NewTicker(CredentialsPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			// An unreadable or empty file is one that is about to be replaced.
			content, err := os.ReadFile(w.path)
			if err == nil && len(content) > 0 && !bytes.Equal(content, w.content) {
				return ErrCredentialsChanged
			}
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica watches.
func (w *CredentialsWatcher) NeedLeaderElection() bool { return false }
