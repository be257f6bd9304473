// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// exitMarker remembers across container restarts whether etcd was asked to end. The sidecar's quick validation is
// only enough after such an end; a crash, or a stop request, leaves no marker.
type exitMarker struct{ path string }

// validationMode names the check that the sidecar has to make of the data directory.
func (e exitMarker) validationMode() string {
	// The marker of the images of etcd before etcd-wrapper. Failing to remove it changes nothing.
	_ = os.Remove(filepath.Join(filepath.Dir(e.path), "validation_marker"))
	content, err := os.ReadFile(e.path)
	if err != nil {
		return "full"
	}
	switch strings.TrimSpace(string(content)) {
	case "terminated", "interrupt": // os.Signal's own names of SIGTERM and SIGINT
		return "sanity"
	}
	return "full"
}

func (e exitMarker) write(s os.Signal) error { return os.WriteFile(e.path, []byte(s.String()), 0o600) }

func (e exitMarker) remove() error {
	if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
