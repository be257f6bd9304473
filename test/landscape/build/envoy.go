// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// componentEnvoy is the real component with Envoy's binary.
const componentEnvoy = "envoy"

// Envoy returns the files of an image that runs Envoy: its binary at the path, and the libraries and the loader that it
// is linked with where it looks for them. It is an error if the component has not been built.
func Envoy(ctx context.Context, cfg *config.Config, path string) ([]tarball.File, error) {
	dir, err := Tool(ctx, cfg, componentEnvoy)
	if err != nil {
		return nil, err
	}
	return envoyFiles(dir, path)
}

// envoyFiles are those of the component's folder.
func envoyFiles(dir, path string) ([]tarball.File, error) {
	files := []tarball.File{{Path: path, Source: filepath.Join(dir, "envoy")}}
	libraries := filepath.Join(dir, "libraries")
	if err := filepath.WalkDir(libraries, func(source string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		target, err := filepath.Rel(libraries, source)
		files = append(files, tarball.File{Path: "/" + target, Source: source})
		return err
	}); err != nil {
		return nil, fmt.Errorf("failed to find libraries of Envoy: %w", err)
	}
	if len(files) == 1 {
		return nil, fmt.Errorf("failed to find libraries of Envoy: there are none in %q", libraries)
	}
	return files, nil
}
