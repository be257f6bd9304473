// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folders remembers which folders of the machine were made, so that they can be removed again.
type Folders struct {
	// Record is the file with one folder per line. It outlives a restart of the machine, as the folders do.
	Record string
}

// DefaultFolders are those of the machine.
func DefaultFolders() Folders { return Folders{Record: "/var/lib/livecpm-folders"} }

// Make makes a folder and records first that it did.
func (f Folders) Make(folder string) error {
	for parent := filepath.Dir(folder); parent != "/"; parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); err == nil {
			break
		}
		if err := f.Make(parent); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(f.Record, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("failed to record folder %s: %w", folder, err)
	}
	_, err = fmt.Fprintln(file, folder)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("failed to record folder %s: %w", folder, err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("failed to make folder %s: %w", folder, err)
	}
	return nil
}

// Remove removes the recorded folders, last one first. A folder that something else uses by now stays.
func (f Folders) Remove() error {
	file, err := os.Open(f.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to open record of folders: %w", err)
	}
	defer file.Close()
	var folders []string
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		folders = append(folders, scanner.Text())
	}
	for i := len(folders) - 1; i >= 0; i-- {
		err := unix.Rmdir(folders[i])
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) &&
			!errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("failed to remove folder %s: %w", folders[i], err)
		}
	}
	if err := os.Remove(f.Record); err != nil {
		return fmt.Errorf("failed to remove record of folders: %w", err)
	}
	return nil
}
