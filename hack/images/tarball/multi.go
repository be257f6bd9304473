// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tarball

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"slices"
)

// WriteMulti writes one image that is there for several architectures: all of them under the same references, which
// lead to an index of them. It returns the index's digest, by which the image is known on every architecture. Tools
// that know Docker's older form only (docker load without containerd's image store) do not read it.
func WriteMulti(w io.Writer, images ...Image) (string, error) {
	if len(images) == 0 {
		return "", errors.New("there is no image for any architecture")
	}
	var (
		all    = index{SchemaVersion: schemaVersion, MediaType: indexType}
		blobs  []entry
		layers = make([]descriptor, 0, len(images))
		seen   = map[string]bool{}
	)
	for _, image := range images {
		if !slices.Equal(image.sortedRefs(), images[0].sortedRefs()) {
			return "", fmt.Errorf("the image for %s has other references than that for %s", image.architecture(),
				images[0].architecture())
		}
		if seen[image.architecture()] {
			return "", fmt.Errorf("there are two images for %s", image.architecture())
		}
		seen[image.architecture()] = true
		manifest, config, layer, err := image.blobs()
		if err != nil {
			return "", err
		}
		described := manifest.descriptor
		described.Platform = &platform{Architecture: image.architecture(), OS: "linux"}
		all.Manifests = append(all.Manifests, described)
		blobs, layers = append(blobs, manifest.entry(), config.entry()), append(layers, layer)
	}
	inner, err := newBlob(indexType, all)
	if err != nil {
		return "", err
	}
	outer, err := images[0].named(inner.descriptor)
	if err != nil {
		return "", err
	}

	t := tar.NewWriter(w)
	if err := writeEntries(t, append([]entry{{"oci-layout", []byte(ociLayout)}, {"index.json", outer}, inner.entry()},
		blobs...)...); err != nil {
		return "", err
	}
	for n, layer := range layers {
		if err := images[n].writeLayerBlob(t, layer); err != nil {
			return "", err
		}
	}
	return inner.Digest, t.Close()
}
