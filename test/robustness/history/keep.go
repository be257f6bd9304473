// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

// Names of the files that Keep writes.
const (
	FileHistory = "history.json"
	FileVerdict = "verdict.json"
	FilePicture = "linearization.html"
)

// pictureTimeout bounds the search for the picture.
const pictureTimeout = time.Minute

// Write writes the history and the verdict to the folder.
func Write(folder string, h *History, verdict *Verdict) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to make folder for the history: %w", err)
	}
	for name, content := range map[string]any{FileHistory: h, FileVerdict: verdict} {
		data, err := json.MarshalIndent(content, "", " ")
		if err != nil {
			return fmt.Errorf("failed to encode %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), append(data, '\n'), 0o644); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
	}
	return nil
}

// Keep writes the history, the verdict and porcupine's picture of the search to the folder.
func Keep(folder string, h *History, verdict *Verdict) error {
	if err := Write(folder, h, verdict); err != nil {
		return err
	}
	// The picture shows how far the search got, which the check itself does not remember: that takes a multiple of its
	// time.
	_, picture := porcupine.CheckOperationsVerbose(model(), forPorcupine(resolve(h)), pictureTimeout)
	if err := porcupine.VisualizePath(model(), picture, filepath.Join(folder, FilePicture)); err != nil {
		return fmt.Errorf("failed to draw the history: %w", err)
	}
	return nil
}

// Open returns a history that Keep has written, to judge it again.
func Open(file string) (*History, error) {
	data, err := os.ReadFile(file) // #nosec G304 -- the caller names the file.
	if err != nil {
		return nil, fmt.Errorf("failed to read the history: %w", err)
	}
	h := &History{}
	if err := json.Unmarshal(data, h); err != nil {
		return nil, fmt.Errorf("failed to decode the history %s: %w", file, err)
	}
	return h, nil
}
