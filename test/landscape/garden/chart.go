// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// packChart packs a helm chart's folder the way `helm package` does, with nothing in it that changes from run to run.
// Go files beside the chart are not part of it.
func packChart(dir, name string) ([]byte, error) {
	var packed bytes.Buffer
	zipper := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipper)

	chart := os.DirFS(dir)
	if err := fs.WalkDir(chart, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(file, ".go") {
			return err
		}
		content, err := fs.ReadFile(chart, file)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{
			Name: path.Join(name, file), Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0),
			Format: tar.FormatUSTAR,
		}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	}); err != nil {
		return nil, fmt.Errorf("failed to pack chart %q: %w", dir, err)
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("failed to pack chart %q: %w", dir, err)
	}
	if err := zipper.Close(); err != nil {
		return nil, fmt.Errorf("failed to pack chart %q: %w", dir, err)
	}
	return packed.Bytes(), nil
}
