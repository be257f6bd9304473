// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
)

// Archive packs the named chart as Helm packs charts, which is what a ControllerDeployment holds as its rawChart. The
// same content makes the same archive: no time and no user gets into it.
func Archive(chart string) ([]byte, error) {
	return ArchiveWith(chart, func(_ string, content []byte) ([]byte, error) { return content, nil })
}

// ArchiveWith packs the named chart with the files that the function makes of those of the repository. Paths begin with
// the name of the chart.
func ArchiveWith(chart string, change func(path string, content []byte) ([]byte, error)) ([]byte, error) {
	buffer := &bytes.Buffer{}
	compressor, err := gzip.NewWriterLevel(buffer, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("failed to pack chart %s: %w", chart, err)
	}
	archive := tar.NewWriter(compressor)
	// The walk is in the order of the names.
	err = fs.WalkDir(files, chart, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		if content, err = change(path, content); err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: int64(len(content)),
			Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err := errors.Join(err, archive.Close(), compressor.Close()); err != nil {
		return nil, fmt.Errorf("failed to pack chart %s: %w", chart, err)
	}
	return buffer.Bytes(), nil
}
