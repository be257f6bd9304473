// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package tarball writes container images as OCI image layouts in one tar file, FROM scratch and without a container
// engine. The same input gives the same bytes, and the digest of an image is known without importing it. The file can
// be read by containerd (ctr images import) as well as by docker load. go-containerregistry makes the manifests and the
// layout of it.
package tarball

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is one file of an image.
type File struct {
	// Path is where the file is in the image.
	Path string
	// Source is the file to copy. When it is empty, Data is the content.
	Source string
	// Data is the content when Source is empty.
	Data []byte
	// Mode is the permission; 0 means 0755.
	Mode int64
}

// Image describes an image.
type Image struct {
	// Refs are the full references the image is known by, for example livecpm.local/agent:v1.
	Refs []string
	// Files are the files of the single layer.
	Files []File
	// Entrypoint is the program and its first arguments.
	Entrypoint []string
	// Env is added to the environment of the program, each as NAME=value.
	Env []string
	// User is the user (and group) to run as; empty means root.
	User string
	// Labels are put into the image's configuration.
	Labels map[string]string
	// Architecture is what the programs are built for, in Go's words; empty means that of this machine.
	Architecture string
}

// Digest returns the digest of the image's manifest, which is what containerd shows for each of its references.
func (i Image) Digest() (string, error) {
	built, err := i.build()
	if err != nil {
		return "", err
	}
	return digestOf(built)
}

// Write writes the image.
func Write(w io.Writer, image Image) error {
	built, err := image.build()
	if err != nil {
		return err
	}
	return write(w, image.sortedRefs(), built)
}

func write(w io.Writer, refs []string, image v1.Image) error {
	manifest, err := dockerManifest(refs, image)
	if err != nil {
		return err
	}
	return writeLayout(w, named(refs, image), map[string][]byte{"manifest.json": manifest})
}

// WriteFile writes the image into the folder under a name made of the given name and of the content's digest. It keeps
// a file that is there already and removes older ones of the same name. It returns the path and the manifest's digest.
func WriteFile(dir, name string, image Image) (file, digest string, err error) {
	built, err := image.build()
	if err != nil {
		return "", "", err
	}
	if digest, err = digestOf(built); err != nil {
		return "", "", err
	}
	// References are not part of the manifest but are part of the file.
	key := sha256.Sum256([]byte(digest + "\n" + strings.Join(image.sortedRefs(), "\n")))
	file = filepath.Join(dir, name+"-"+hex.EncodeToString(key[:])[:12]+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, digest, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("failed to look for image %q: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("failed to make folder for images: %w", err)
	}
	if err := WriteAtomically(file, func(w io.Writer) error {
		return write(w, image.sortedRefs(), built)
	}); err != nil {
		return "", "", err
	}
	return file, digest, removeOlder(dir, name, file)
}

// WriteAtomically writes a file and renames it into place, so that nobody finds half of one.
func WriteAtomically(file string, content func(io.Writer) error) error {
	partial, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("failed to write image %q: %w", file, err)
	}
	defer os.Remove(partial.Name())
	if err := errors.Join(content(partial), partial.Chmod(0o644), partial.Close()); err != nil {
		return fmt.Errorf("failed to write image %q: %w", file, err)
	}
	if err := os.Rename(partial.Name(), file); err != nil {
		return fmt.Errorf("failed to put image %q into place: %w", file, err)
	}
	return nil
}

// removeOlder removes other versions of an image: <name>-<12 hexadecimal digits>.tar.
func removeOlder(dir, name, keep string) error {
	others, err := filepath.Glob(filepath.Join(dir, name+"-"+strings.Repeat("[0-9a-f]", 12)+".tar"))
	if err != nil {
		return fmt.Errorf("failed to list images: %w", err)
	}
	for _, other := range others {
		if other == keep {
			continue
		}
		if err := os.Remove(other); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to remove older image: %w", err)
		}
	}
	return nil
}

// WriteMulti writes one image that is there for several architectures: all of them under the same references, which
// lead to an index of them. It returns the index's digest, by which the image is known on every architecture. Tools
// that know Docker's older form only (docker load without containerd's image store) do not read it.
func WriteMulti(w io.Writer, images ...Image) (string, error) {
	if len(images) == 0 {
		return "", errors.New("there is no image for any architecture")
	}
	adds, seen := make([]mutate.IndexAddendum, 0, len(images)), map[string]bool{}
	for _, image := range images {
		architecture := image.architecture()
		if !slices.Equal(image.sortedRefs(), images[0].sortedRefs()) {
			return "", fmt.Errorf("the image for %s has other references than that for %s", architecture,
				images[0].architecture())
		}
		if seen[architecture] {
			return "", fmt.Errorf("there are two images for %s", architecture)
		}
		seen[architecture] = true
		built, err := image.build()
		if err != nil {
			return "", err
		}
		adds = append(adds, mutate.IndexAddendum{Add: built,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{Architecture: architecture, OS: system}}})
	}
	all := mutate.AppendManifests(empty.Index, adds...)
	if err := writeLayout(w, named(images[0].sortedRefs(), all), nil); err != nil {
		return "", err
	}
	return digestOf(all)
}

// system is what all programs are built for.
const system = "linux"

// build makes the image of its description.
func (i Image) build() (v1.Image, error) {
	if len(i.Refs) == 0 {
		return nil, errors.New("image has no reference")
	}
	for _, ref := range i.Refs {
		if strings.LastIndexByte(ref, ':') <= strings.LastIndexByte(ref, '/') {
			return nil, fmt.Errorf("image reference %q has no tag", ref)
		}
	}
	content, err := newLayer(i.Files)
	if err != nil {
		return nil, err
	}
	base, err := mutate.ConfigFile(
		mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		&v1.ConfigFile{
			Architecture: i.architecture(), OS: system, Created: v1.Time{Time: epoch},
			RootFS: v1.RootFS{Type: "layers"},
			Config: v1.Config{User: i.User, Env: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/"}, i.Env...),
				Entrypoint: i.Entrypoint, WorkingDir: "/", Labels: i.Labels},
		})
	if err != nil {
		return nil, fmt.Errorf("failed to describe the image: %w", err)
	}
	built, err := mutate.Append(base, mutate.Addendum{Layer: content,
		History: v1.History{Created: v1.Time{Time: epoch}}})
	if err != nil {
		return nil, fmt.Errorf("failed to add the layer: %w", err)
	}
	return built, nil
}

func (i Image) sortedRefs() []string { return slices.Sorted(slices.Values(i.Refs)) }

func (i Image) architecture() string {
	if i.Architecture == "" {
		return runtime.GOARCH
	}
	return i.Architecture
}

func digestOf(of mutate.Appendable) (string, error) {
	digest, err := of.Digest()
	if err != nil {
		return "", fmt.Errorf("failed to compute the digest: %w", err)
	}
	return digest.String(), nil
}
