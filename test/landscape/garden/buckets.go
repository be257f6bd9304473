// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/machine"
)

// hiddenBucket begins the name of the folder that keeps what a bucket had while it is gone.
const hiddenBucket = ".gone-"

// Buckets are the folders that play the object stores of the seeds. Pods have them mounted, so a bucket that is gone
// keeps its folder: it is empty, and nothing can be put into it.
type Buckets struct {
	// Folder is where they are.
	Folder string
	// Freeze lets nobody change what is in a folder, Thaw lets everybody do so again, and Frozen reports which
	// (machine.Freeze).
	Freeze, Thaw func(folder string) error
	Frozen       func(folder string) (bool, error)
}

// BucketsOf returns those of a landscape.
func BucketsOf(cfg *config.Config) *Buckets {
	return &Buckets{Folder: BackupFolder(cfg), Freeze: machine.Freeze, Thaw: machine.Thaw,
		Frozen: machine.Frozen}
}

// list returns the folders of the buckets, and those of what is hidden.
func (b *Buckets) list() (buckets, hidden []string, err error) {
	entries, err := os.ReadDir(b.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("failed to list buckets: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(b.Folder, entry.Name())
		switch {
		case !entry.IsDir():
		case strings.HasPrefix(entry.Name(), hiddenBucket):
			hidden = append(hidden, path)
		default:
			buckets = append(buckets, path)
		}
	}
	return buckets, hidden, nil
}

// Hide takes the buckets away, of all seeds. It is an error if there is none.
func (b *Buckets) Hide() error {
	buckets, _, err := b.list()
	if err != nil {
		return err
	}
	if len(buckets) == 0 {
		return fmt.Errorf("failed to hide buckets: there is none in %s", b.Folder)
	}
	for _, bucket := range buckets {
		if err := b.hide(bucket); err != nil {
			return fmt.Errorf("failed to hide bucket %s: %w", filepath.Base(bucket), err)
		}
	}
	return nil
}

// hide empties a bucket and freezes it. What somebody puts into it in between is found and taken as well.
func (b *Buckets) hide(bucket string) error {
	away := filepath.Join(b.Folder, hiddenBucket+filepath.Base(bucket))
	if err := os.MkdirAll(away, 0o755); err != nil {
		return err
	}
	for {
		if err := b.Thaw(bucket); err != nil {
			return err
		}
		if err := move(bucket, away); err != nil {
			return err
		}
		if err := b.Freeze(bucket); err != nil {
			return err
		}
		left, err := os.ReadDir(bucket)
		if err != nil || len(left) == 0 {
			return err
		}
	}
}

// Hidden reports whether all buckets are gone: they are empty and frozen.
func (b *Buckets) Hidden() (bool, error) {
	buckets, _, err := b.list()
	if err != nil || len(buckets) == 0 {
		return false, err
	}
	for _, bucket := range buckets {
		frozen, err := b.Frozen(bucket)
		if err != nil || !frozen {
			return false, err
		}
		left, err := os.ReadDir(bucket)
		if err != nil || len(left) > 0 {
			return false, err
		}
	}
	return true, nil
}

// Show puts everything back that Hide has taken, also that of a program that was killed. It does nothing if nothing is
// hidden.
func (b *Buckets) Show() error {
	_, hidden, err := b.list()
	if err != nil {
		return err
	}
	for _, away := range hidden {
		bucket := filepath.Join(b.Folder, strings.TrimPrefix(filepath.Base(away), hiddenBucket))
		if err := b.show(bucket, away); err != nil {
			return fmt.Errorf("failed to put back bucket %s: %w", filepath.Base(bucket), err)
		}
	}
	return nil
}

func (b *Buckets) show(bucket, away string) error {
	if err := b.Thaw(bucket); err != nil {
		return err
	}
	if err := move(away, bucket); err != nil {
		return err
	}
	return os.Remove(away)
}

// move moves everything that is in a folder into another one. Folders that are in both become one.
func move(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		if _, err := os.Stat(target); err == nil && entry.IsDir() {
			if err := errors.Join(move(source, target), os.Remove(source)); err != nil {
				return err
			}
			continue
		}
		// What has ended in between, as a snapshot that was only about to be written, need not be moved.
		if err := os.Rename(source, target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
