// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// stale is how old the counts of a probe may be. They are written every second; a probe that was killed leaves its
// file.
const stale = 15 * time.Second

// CountsStore keeps what running probes have counted in files of a folder, those of each shoot by its key. A file in
// the user's cache needs no permission in any cluster, and get must not need access to the shoot that it shows.
type CountsStore struct {
	// Folder is the folder.
	Folder string
}

// DefaultCountsStore returns the store in the user's cache folder.
func DefaultCountsStore() (CountsStore, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return CountsStore{}, fmt.Errorf("failed to find the user's cache folder: %w", err)
	}
	return CountsStore{Folder: filepath.Join(cache, "kubectl-livecpm", "probes")}, nil
}

// CountsKey identifies the shoot, also among shoots of the same name in several gardens.
func CountsKey(gardenHost string, shoot *gardencorev1beta1.Shoot) string {
	sum := sha256.Sum256([]byte(gardenHost + "\n" + shoot.Namespace + "\n" + shoot.Name + "\n" + string(shoot.UID)))
	return hex.EncodeToString(sum[:8])
}

func (s CountsStore) path(key string) string { return filepath.Join(s.Folder, key+".json") }

func (s CountsStore) seriesPath(key string) string {
	return filepath.Join(s.Folder, key+".series.json")
}

// Write replaces the counts.
func (s CountsStore) Write(key string, probe summary.Probe) error {
	return s.replace(s.path(key), probe)
}

// WriteSeries replaces the course of the probe.
func (s CountsStore) WriteSeries(key string, series *recording.Series) error {
	return s.replace(s.seriesPath(key), series)
}

// replace writes a file, of which a reader sees the old content or the new one.
func (s CountsStore) replace(path string, content any) error {
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return fmt.Errorf("failed to create the folder for the counts of the probe: %w", err)
	}
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("failed to encode the counts of the probe: %w", err)
	}
	file, err := os.CreateTemp(s.Folder, "."+filepath.Base(path))
	if err != nil {
		return fmt.Errorf("failed to write the counts of the probe: %w", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("failed to write the counts of the probe: %w", err)
	}
	return nil
}

// Read returns the counts, nil if no probe runs. What cannot be read is no probe: it is shown in passing.
func (s CountsStore) Read(key string, now time.Time) *summary.Probe {
	data, err := os.ReadFile(s.path(key))
	if err != nil {
		return nil
	}
	var out summary.Probe
	if err := json.Unmarshal(data, &out); err != nil || now.Sub(out.Updated.Time) > stale {
		return nil
	}
	return &out
}

// ReadSeries returns the course of the probe whose counts Read has returned, nil if there is none.
func (s CountsStore) ReadSeries(key string) *recording.Series {
	data, err := os.ReadFile(s.seriesPath(key))
	if err != nil {
		return nil
	}
	var out recording.Series
	if err := json.Unmarshal(data, &out); err != nil || out.IntervalSeconds <= 0 {
		return nil
	}
	return &out
}

// Remove removes what is kept of a probe that has ended.
func (s CountsStore) Remove(key string) error {
	var failures []error
	for _, path := range []string{s.path(key), s.seriesPath(key)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, fmt.Errorf("failed to remove the counts of the probe: %w", err))
		}
	}
	return errors.Join(failures...)
}
