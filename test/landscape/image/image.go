// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package image makes the image tarballs that the seeds import.
package image

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/livecpm/livecpm/hack/images/tarball"
	"github.com/livecpm/livecpm/test/landscape/build"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// Registry is the host part of the references of the project's own images; nothing answers there.
const Registry = "livecpm.local"

// Recipe says what goes into an image.
type Recipe struct {
	// Name is the name of the tarball and, without Refs, of the image: <Registry>/<Name>:<Tag>.
	Name string
	// Refs are the references the image gets. Empty means the project's own.
	Refs []string
	// Package is the project's own command to build, relative to the repository.
	Package string
	// Component and Binary name a binary of a real component instead.
	Component, Binary string
	// Path is where the binary is in the image; empty means /<name of the binary>.
	Path string
	// Links are further paths of the same binary.
	Links []string
	// Entrypoint is the program and its first arguments; empty means the binary.
	Entrypoint []string
}

// Tarball is an image that has been made.
type Tarball struct {
	// Name is the recipe's name.
	Name string
	// File is the tarball.
	File string
	// Refs are the image's references.
	Refs []string
	// Digest is the digest of the image's manifest.
	Digest string
}

// Tag is the tag of the project's own images in the landscape.
const Tag = "landscape"

// Ref returns the reference of one of the project's own images.
func Ref(name string) string { return Registry + "/" + name + ":" + Tag }

// Make builds the binary if need be and writes the tarball below the state folder.
func Make(ctx context.Context, cfg *config.Config, recipe Recipe) (Tarball, error) {
	var binary string
	if recipe.Package != "" {
		var err error
		if binary, err = build.Own(ctx, cfg, recipe.Name, recipe.Package); err != nil {
			return Tarball{}, err
		}
	} else {
		dir, err := build.Tool(ctx, cfg, recipe.Component)
		if err != nil {
			return Tarball{}, err
		}
		binary = filepath.Join(dir, recipe.Binary)
	}
	path := recipe.Path
	if path == "" {
		path = "/" + filepath.Base(binary)
	}
	image := tarball.Image{
		Refs:       recipe.Refs,
		Files:      []tarball.File{{Path: path, Source: binary}},
		Entrypoint: recipe.Entrypoint,
	}
	if len(image.Refs) == 0 {
		image.Refs = []string{Ref(recipe.Name)}
	}
	if len(image.Entrypoint) == 0 {
		image.Entrypoint = []string{path}
	}
	for _, link := range recipe.Links {
		image.Files = append(image.Files, tarball.File{Path: link, Source: binary})
	}
	file, digest, err := tarball.WriteFile(cfg.Images(), recipe.Name, image)
	if err != nil {
		return Tarball{}, fmt.Errorf("failed to make image %s: %w", recipe.Name, err)
	}
	return Tarball{Name: recipe.Name, File: file, Refs: image.Refs, Digest: digest}, nil
}
