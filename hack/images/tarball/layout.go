// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tarball

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	docker "github.com/google/go-containerregistry/pkg/v1/tarball"
)

// named returns the index of a layout in which each reference is an entry that leads to an image, or to an index of
// images. containerd takes the name from its own annotation, other tools take the tag from the standard one.
func named(refs []string, to mutate.Appendable) v1.ImageIndex {
	entries := make([]mutate.IndexAddendum, 0, len(refs))
	for _, ref := range refs {
		entries = append(entries, mutate.IndexAddendum{Add: to, Descriptor: v1.Descriptor{
			Annotations: map[string]string{
				"io.containerd.image.name":          ref,
				"org.opencontainers.image.ref.name": ref[strings.LastIndexByte(ref, ':')+1:],
			},
		}})
	}
	return mutate.AppendManifests(empty.Index, entries...)
}

// dockerManifest returns what docker load reads instead of index.json.
func dockerManifest(refs []string, image v1.Image) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifest: %w", err)
	}
	entry := docker.Descriptor{Config: blobPath(manifest.Config.Digest), RepoTags: refs}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blobPath(layer.Digest))
	}
	return json.Marshal(docker.Manifest{entry})
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// writeLayout writes the layout, and further files, into one tar file. The library writes into a folder.
func writeLayout(w io.Writer, index v1.ImageIndex, more map[string][]byte) error {
	folder, err := os.MkdirTemp("", "livecpm-image-")
	if err != nil {
		return fmt.Errorf("failed to make a folder for the image: %w", err)
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, index)
	if err != nil {
		return fmt.Errorf("failed to write the layout: %w", err)
	}
	for name, content := range more {
		if err := path.WriteFile(name, content, 0o600); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
	}
	t := tar.NewWriter(w)
	if err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return writeFile(t, File{Path: filepath.ToSlash(strings.TrimPrefix(file, folder+string(filepath.Separator))),
			Source: file, Mode: 0o644})
	}); err != nil {
		return fmt.Errorf("failed to pack the layout: %w", err)
	}
	return t.Close()
}
