// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// CredentialsPeriod is how often the file is compared with what the program has started with.
const CredentialsPeriod = 30 * time.Second

// ErrCredentialsChanged ends the program, so that its Deployment starts it with the new credentials.
var ErrCredentialsChanged = errors.New("the kubeconfig for the garden, or the CA that it names, has changed, " +
	"restarting with it")

// CredentialsWatcher is a runnable of the manager that ends with ErrCredentialsChanged when the kubeconfig for the
// garden is replaced, or the file with the CA that it names: credentials are rotated, and clients keep those that they
// were made with. A file with a token is no reason to end: clients read it again by themselves.
type CredentialsWatcher struct {
	// files are the contents that the program has started with, by path.
	files map[string][]byte
	clock clock.WithTicker
}

// NewCredentialsWatcher returns a watcher of the kubeconfig, and of the file with the CA that it names, as they are
// now.
func NewCredentialsWatcher(path string, c clock.WithTicker) (*CredentialsWatcher, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the path is from the program's own configuration.
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the garden: %w", err)
	}
	w := &CredentialsWatcher{files: map[string][]byte{path: content}, clock: c}
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return nil, fmt.Errorf("failed to decode the kubeconfig for the garden: %w", err)
	}
	for _, cluster := range kubeconfig.Clusters {
		if cluster.CertificateAuthority == "" {
			continue
		}
		// A path that is not absolute begins where the kubeconfig is, as for clients.
		file := cluster.CertificateAuthority
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		if w.files[file], err = os.ReadFile(file); err != nil { // #nosec G304 -- as above.
			return nil, fmt.Errorf("failed to read the CA that the kubeconfig for the garden names: %w", err)
		}
	}
	return w, nil
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
			for path, before := range w.files {
				// An unreadable or empty file is one that is about to be replaced.
				content, err := os.ReadFile(path) // #nosec G304 -- as in the constructor.
				if err == nil && len(content) > 0 && !bytes.Equal(content, before) {
					return ErrCredentialsChanged
				}
			}
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica watches.
func (w *CredentialsWatcher) NeedLeaderElection() bool { return false }
