// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package tarball writes container images as OCI image layouts in one tar file, FROM scratch and without a container
// engine. The same input gives the same bytes, and the digest of an image is known without importing it. The file can
// be read by containerd (ctr images import) as well as by docker load.
package tarball

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"
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
	// Cmd are the default arguments.
	Cmd []string
	// User is the user (and group) to run as; empty means root.
	User string
	// WorkingDir is the working directory; empty means /.
	WorkingDir string
	// Labels are put into the image's configuration.
	Labels map[string]string
	// Architecture is what the programs are built for, in Go's words; empty means that of this machine.
	Architecture string
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type blob struct {
	descriptor
	content []byte
}

const (
	ociLayout     = `{"imageLayoutVersion":"1.0.0"}`
	indexType     = "application/vnd.oci.image.index.v1+json"
	manifestType  = "application/vnd.oci.image.manifest.v1+json"
	schemaVersion = 2
)

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// named returns the index of a layout in which each reference of the image is an entry that leads to the given one.
// containerd takes the name from its own annotation, other tools take the tag from the standard one.
func (i Image) named(entry descriptor) ([]byte, error) {
	all := index{SchemaVersion: schemaVersion, MediaType: indexType}
	for _, ref := range i.sortedRefs() {
		entry.Annotations = map[string]string{
			"io.containerd.image.name":          ref,
			"org.opencontainers.image.ref.name": ref[strings.LastIndexByte(ref, ':')+1:],
		}
		all.Manifests = append(all.Manifests, entry)
	}
	content, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("failed to encode index: %w", err)
	}
	return content, nil
}

// Digest returns the digest of the image's manifest, which is what containerd shows for each of its references.
func (i Image) Digest() (string, error) {
	manifest, _, _, err := i.blobs()
	return manifest.Digest, err
}

// WriteFile writes the image into the folder under a name made of the given name and of the content's digest. It keeps
// a file that is there already and removes older ones of the same name. It returns the path and the manifest's digest.
func WriteFile(dir, name string, image Image) (file, digest string, err error) {
	manifest, config, layer, err := image.blobs()
	if err != nil {
		return "", "", err
	}
	// References are not part of the manifest but are part of the file.
	key := sha256.Sum256([]byte(manifest.Digest + "\n" + strings.Join(image.sortedRefs(), "\n")))
	file = filepath.Join(dir, name+"-"+hex.EncodeToString(key[:])[:12]+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, manifest.Digest, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("failed to look for image %q: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("failed to make folder for images: %w", err)
	}
	partial, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return "", "", fmt.Errorf("failed to write image %q: %w", file, err)
	}
	defer os.Remove(partial.Name())
	if err := errors.Join(image.write(partial, manifest, config, layer), partial.Chmod(0o644),
		partial.Close()); err != nil {
		return "", "", fmt.Errorf("failed to write image %q: %w", file, err)
	}
	if err := os.Rename(partial.Name(), file); err != nil {
		return "", "", fmt.Errorf("failed to write image %q: %w", file, err)
	}
	return file, manifest.Digest, removeOlder(dir, name, file)
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

// Write writes the image.
func Write(w io.Writer, image Image) error {
	manifest, config, layer, err := image.blobs()
	if err != nil {
		return err
	}
	return image.write(w, manifest, config, layer)
}

func (i Image) write(w io.Writer, manifest, config blob, layer descriptor) error {
	type dockerManifest struct{ Config, RepoTags, Layers any }
	indexJSON, err := i.named(manifest.descriptor)
	if err != nil {
		return err
	}
	dockerJSON, err := json.Marshal(
		[]dockerManifest{{blobPath(config.Digest), i.sortedRefs(), []string{blobPath(layer.Digest)}}})
	if err != nil {
		return fmt.Errorf("failed to encode manifest: %w", err)
	}
	t := tar.NewWriter(w)
	if err := writeEntries(t,
		entry{"oci-layout", []byte(ociLayout)}, entry{"index.json", indexJSON}, entry{"manifest.json", dockerJSON},
		manifest.entry(), config.entry(),
	); err != nil {
		return err
	}
	if err := i.writeLayerBlob(t, layer); err != nil {
		return err
	}
	return t.Close()
}

// entry is a small file of a layout.
type entry struct {
	name    string
	content []byte
}

func (b blob) entry() entry { return entry{blobPath(b.Digest), b.content} }

func writeEntries(t *tar.Writer, entries ...entry) error {
	for _, one := range entries {
		if err := writeEntry(t, one.name, 0o644, int64(len(one.content)), bytes.NewReader(one.content)); err != nil {
			return err
		}
	}
	return nil
}

// writeLayerBlob writes the layer that the descriptor was computed of.
func (i Image) writeLayerBlob(t *tar.Writer, layer descriptor) error {
	if err := t.WriteHeader(header(blobPath(layer.Digest), 0o644, layer.Size)); err != nil {
		return fmt.Errorf("failed to write layer: %w", err)
	}
	return i.writeLayer(t)
}

// blobs computes manifest, configuration and the descriptor of the layer. The layer itself can be large and is written
// a second time when it is needed instead of being kept in memory.
func (i Image) blobs() (manifest, config blob, layer descriptor, err error) {
	if len(i.Refs) == 0 {
		return manifest, config, layer, errors.New("image has no reference")
	}
	for _, ref := range i.Refs {
		if strings.LastIndexByte(ref, ':') <= strings.LastIndexByte(ref, '/') {
			return manifest, config, layer, fmt.Errorf("image reference %q has no tag", ref)
		}
	}
	hash := sha256.New()
	count := &counter{w: hash}
	if err := i.writeLayer(count); err != nil {
		return manifest, config, layer, err
	}
	layer = descriptor{MediaType: "application/vnd.oci.image.layer.v1.tar",
		Digest: "sha256:" + hex.EncodeToString(hash.Sum(nil)), Size: count.n}

	workingDir := i.WorkingDir
	if workingDir == "" {
		workingDir = "/"
	}
	type runConfig struct {
		User       string            `json:",omitempty"`
		Env        []string          `json:",omitempty"`
		Entrypoint []string          `json:",omitempty"`
		Cmd        []string          `json:",omitempty"`
		WorkingDir string            `json:",omitempty"`
		Labels     map[string]string `json:",omitempty"`
	}
	config, err = newBlob("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": i.architecture(),
		"os":           "linux",
		"config": runConfig{User: i.User, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/"},
			Entrypoint: i.Entrypoint, Cmd: i.Cmd, WorkingDir: workingDir, Labels: i.Labels},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return manifest, config, layer, err
	}
	manifest, err = newBlob(manifestType, map[string]any{
		"schemaVersion": schemaVersion,
		"mediaType":     manifestType,
		"config":        config.descriptor,
		"layers":        []descriptor{layer},
	})
	return manifest, config, layer, err
}

// writeLayer writes the layer: the folders that programs expect, the users that gardener's manifests name, then the
// files in the order of their paths. The users are those of common distroless images, home included:
// etcd-backup-restore writes to it, and etcd-druid mounts local backups into it. Like everything it belongs to root, so
// it is open to all.
func (i Image) writeLayer(w io.Writer) error {
	files := append([]File{
		{Path: "etc/passwd",
			Data: []byte(
				"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"),
			Mode: 0o644},
		{Path: "etc/group", Data: []byte("root:x:0:\nnonroot:x:65532:\n"), Mode: 0o644},
	}, i.Files...)
	dirs := map[string]int64{"tmp": 0o1777, "home": 0o755, "home/nonroot": 0o777}
	seen := map[string]bool{}
	for n := range files {
		files[n].Path = strings.TrimPrefix(path.Clean("/"+files[n].Path), "/")
		if seen[files[n].Path] {
			return fmt.Errorf("file %q is twice in the image", files[n].Path)
		}
		seen[files[n].Path] = true
		for dir := path.Dir(files[n].Path); dir != "."; dir = path.Dir(dir) {
			if _, ok := dirs[dir]; !ok {
				dirs[dir] = 0o755
			}
		}
	}
	sort.Slice(files, func(a, b int) bool { return files[a].Path < files[b].Path })
	names := make([]string, 0, len(dirs))
	for dir := range dirs {
		names = append(names, dir)
	}
	// A parent sorts before its children.
	sort.Strings(names)

	t := tar.NewWriter(w)
	for _, dir := range names {
		h := header(dir+"/", dirs[dir], 0)
		h.Typeflag = tar.TypeDir
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("failed to write folder %q: %w", dir, err)
		}
	}
	for _, file := range files {
		if err := writeFile(t, file); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeFile(t *tar.Writer, file File) error {
	mode := file.Mode
	if mode == 0 {
		mode = 0o755
	}
	if file.Source == "" {
		return writeEntry(t, file.Path, mode, int64(len(file.Data)), bytes.NewReader(file.Data))
	}
	source, err := os.Open(file.Source)
	if err != nil {
		return fmt.Errorf("failed to open content of %q: %w", file.Path, err)
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("failed to read size of %q: %w", file.Source, err)
	}
	return writeEntry(t, file.Path, mode, info.Size(), source)
}

func writeEntry(t *tar.Writer, name string, mode, size int64, content io.Reader) error {
	if err := t.WriteHeader(header(name, mode, size)); err != nil {
		return fmt.Errorf("failed to write header of %q: %w", name, err)
	}
	if _, err := io.Copy(t, content); err != nil {
		return fmt.Errorf("failed to write %q: %w", name, err)
	}
	return nil
}

// header leaves out everything that differs from one build to the next: time, owner, inode.
func header(name string, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0).UTC(),
		Format: tar.FormatPAX}
}

func newBlob(mediaType string, value any) (blob, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return blob{}, fmt.Errorf("failed to encode %s: %w", mediaType, err)
	}
	sum := sha256.Sum256(content)
	return blob{descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]),
		Size: int64(len(content))}, content}, nil
}

func blobPath(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }

func (i Image) sortedRefs() []string {
	refs := append([]string(nil), i.Refs...)
	sort.Strings(refs)
	return refs
}

func (i Image) architecture() string {
	if i.Architecture == "" {
		return runtime.GOARCH
	}
	return i.Architecture
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
