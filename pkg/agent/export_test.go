// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import "time"

// NewCredentialsWatcher gives tests the watcher with a period of their own.
func NewCredentialsWatcher(path string, period time.Duration) (*credentialsWatcher, error) {
	watcher, err := newCredentialsWatcher(path)
	if err == nil {
		watcher.period = period
	}
	return watcher, err
}

// ErrCredentialsChanged is what the watcher ends with.
var ErrCredentialsChanged = errCredentialsChanged
