// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tarball

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// users are those that gardener's manifests name.
var users = []File{
	{Path: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/sbin/nologin\n" +
		"nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
	{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
}

// newLayer returns a layer with the folders that programs expect, the users, and the files. The users are those of
// common distroless images, home included: etcd-backup-restore writes to it, and etcd-druid mounts local backups into
// it. Like everything it belongs to root, so it is open to all. The layer is not compressed: most are imported on the
// machine that writes them.
func newLayer(files []File) (v1.Layer, error) {
	dirs := map[string]int64{"tmp": 0o1777, "home": 0o755, "home/nonroot": 0o777}
	seen := map[string]bool{}
	files = slices.Concat(users, files)
	for n := range files {
		file := &files[n]
		file.Path = strings.TrimPrefix(path.Clean("/"+file.Path), "/")
		if seen[file.Path] {
			return nil, fmt.Errorf("file %q is twice in the image", file.Path)
		}
		seen[file.Path] = true
		for dir := path.Dir(file.Path); dir != "."; dir = path.Dir(dir) {
			if _, ok := dirs[dir]; !ok {
				dirs[dir] = 0o755
			}
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })

	var out bytes.Buffer
	t := tar.NewWriter(&out)
	// A parent sorts before its children.
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		h := header(dir+"/", dirs[dir], 0)
		h.Typeflag = tar.TypeDir
		if err := t.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("failed to write folder %q: %w", dir, err)
		}
	}
	for _, file := range files {
		if err := writeFile(t, file); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, fmt.Errorf("failed to write the layer: %w", err)
	}
	return static.NewLayer(out.Bytes(), types.OCIUncompressedLayer), nil
}

func writeFile(t *tar.Writer, file File) error {
	mode := file.Mode
	if mode == 0 {
		mode = 0o755
	}
	if file.Source == "" {
		return writeEntry(t, header(file.Path, mode, int64(len(file.Data))), bytes.NewReader(file.Data))
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
	return writeEntry(t, header(file.Path, mode, info.Size()), source)
}

func writeEntry(t *tar.Writer, h *tar.Header, content io.Reader) error {
	if err := t.WriteHeader(h); err != nil {
		return fmt.Errorf("failed to write header of %q: %w", h.Name, err)
	}
	if _, err := io.Copy(t, content); err != nil {
		return fmt.Errorf("failed to write %q: %w", h.Name, err)
	}
	return nil
}

// epoch is the time of everything in an image.
var epoch = time.Unix(0, 0).UTC()

// header leaves out everything that differs from one build to the next: time, owner, inode.
func header(name string, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: epoch,
		Format: tar.FormatPAX}
}
