// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenletconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

const (
	// ImageVectorOverwriteFile is the name of the file for the environment variable IMAGEVECTOR_OVERWRITE.
	ImageVectorOverwriteFile = "images_overwrite.yaml"
	// ComponentImageVectorOverwritesFile is the name of the file for the environment variable
	// IMAGEVECTOR_OVERWRITE_COMPONENTS.
	ComponentImageVectorOverwritesFile = "components.yaml"
	// TokenFile is the name of the file with the token for the garden.
	TokenFile = "token"
)

// Files are the paths to which the content is written.
type Files struct {
	// Configuration and Kubeconfig are the paths that the agent's configuration names.
	Configuration, Kubeconfig string
	// ImageVectorOverwrite, ComponentImageVectorOverwrites and Token are beside the gardenlet's configuration.
	ImageVectorOverwrite, ComponentImageVectorOverwrites, Token string
}

// FilesOf returns the paths that the agent's configuration asks for.
func FilesOf(config *configv1alpha1.AgentConfiguration) Files {
	folder := filepath.Dir(config.Gardenlet.ConfigurationFile)
	return Files{
		Configuration:                  config.Gardenlet.ConfigurationFile,
		Kubeconfig:                     config.GardenClientConnection.Kubeconfig,
		ImageVectorOverwrite:           filepath.Join(folder, ImageVectorOverwriteFile),
		ComponentImageVectorOverwrites: filepath.Join(folder, ComponentImageVectorOverwritesFile),
		Token:                          filepath.Join(folder, TokenFile),
	}
}

// Write writes those files that are not yet as they should be. It returns whether any of them changed that a process
// reads only when it starts. Clients read the token's file again by themselves.
func (f Files) Write(content *Content) (restart bool, err error) {
	for _, file := range []struct {
		path     string
		data     []byte
		readOnce bool
	}{
		// The token comes first, so that nobody finds a kubeconfig whose token is missing.
		{f.Token, content.Token, false},
		{f.Configuration, content.Configuration, true},
		{f.ImageVectorOverwrite, content.ImageVectorOverwrite, true},
		{f.ComponentImageVectorOverwrites, content.ComponentImageVectorOverwrites, true},
		{f.Kubeconfig, content.Kubeconfig, true},
	} {
		if len(file.data) == 0 {
			continue
		}
		changed, err := write(file.path, file.data)
		if err != nil {
			return restart, err
		}
		restart = restart || changed && file.readOnce
	}
	return restart, nil
}

// write replaces the file in one go, if its content is another one.
func write(path string, data []byte) (changed bool, err error) {
	current, err := os.ReadFile(path) // #nosec G304 -- the path is from the agent's own configuration.
	switch {
	case err == nil && bytes.Equal(current, data):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("failed to compare %s with what the gardenlet has: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, fmt.Errorf("failed to make the folder of %s: %w", path, err)
	}
	partial, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return false, fmt.Errorf("failed to write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(partial.Name()) }()
	_, err = partial.Write(data)
	if err := errors.Join(err, partial.Close()); err != nil {
		return false, fmt.Errorf("failed to write %s: %w", path, err)
	}
	if err := os.Rename(partial.Name(), path); err != nil {
		return false, fmt.Errorf("failed to put %s into place: %w", path, err)
	}
	return true, nil
}
