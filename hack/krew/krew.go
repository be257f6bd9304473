// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package krew packs kubectl-livecpm for krew, the plugin manager of kubectl: an archive for each platform, and the
// manifest that names them with their checksums.
package krew

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	// plugin is the name that users give to krew.
	plugin   = "livecpm"
	homepage = "https://github.com/livecpm/livecpm"
)

// Platform is an operating system and an architecture in Go's words.
type Platform struct {
	OS, Arch string
}

// Platforms are those that the plugin is built for.
var Platforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"}}

// Binary is the name of the executable.
func (p Platform) Binary() string {
	if p.OS == "windows" {
		return "kubectl-livecpm.exe"
	}
	return "kubectl-livecpm"
}

// Archive is the name of the archive.
func (p Platform) Archive() string {
	return fmt.Sprintf("kubectl-livecpm_%s_%s.tar.gz", p.OS, p.Arch)
}

// ManifestFile is the name of the manifest.
const ManifestFile = plugin + ".yaml"

// Files are what an archive has beside the executable.
type Files struct {
	// License is the path of the licence, Completion that of the script that kubectl asks for completion.
	License, Completion string
}

// FilesOf returns the paths of the files in the repository.
func FilesOf(repository string) Files {
	return Files{License: filepath.Join(repository, "LICENSE"),
		Completion: filepath.Join(repository, "cmd", "kubectl-livecpm", "app", completion)}
}

// completion is the name by which kubectl finds the script, which no shell of Windows runs.
const completion = "kubectl_complete-livecpm"

// completes reports whether the archive of the platform has the script.
func (p Platform) completes() bool { return p.OS != "windows" }

// Build compiles the plugin for every platform, packs it with the files, and writes the archives and the manifest that
// names them to the folder. It returns the names of all these files. The function compiles for a platform to a path.
func Build(
	version string, files Files, folder string, compile func(platform Platform, binary string) error,
) ([]string, error) {
	sums := map[Platform]string{}
	// A version that krew refuses should not cost a build.
	for _, platform := range Platforms {
		sums[platform] = ""
	}
	if _, err := Manifest(version, sums); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("failed to create %s: %w", folder, err)
	}
	scratch, err := os.MkdirTemp("", "livecpm-krew-")
	if err != nil {
		return nil, fmt.Errorf("failed to make a folder for binaries: %w", err)
	}
	defer os.RemoveAll(scratch)
	var written []string
	for _, platform := range Platforms {
		binary := filepath.Join(scratch, platform.OS+"_"+platform.Arch+"_"+platform.Binary())
		if err := compile(platform, binary); err != nil {
			return nil, err
		}
		if sums[platform], err = Pack(platform, binary, files, folder); err != nil {
			return nil, err
		}
		if err := os.Remove(binary); err != nil {
			return nil, fmt.Errorf("failed to remove what is packed: %w", err)
		}
		written = append(written, platform.Archive())
	}
	manifest, err := Manifest(version, sums)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, ManifestFile)
	if err := os.WriteFile(path, manifest, 0o644); err != nil { // #nosec G306 -- To be read by everybody.
		return nil, fmt.Errorf("failed to write the manifest: %w", err)
	}
	return append(written, ManifestFile), nil
}

// Pack writes an archive with the executable and the files to the folder and returns its SHA-256 checksum. The same
// content makes the same archive: no time and no user gets into it.
func Pack(platform Platform, binary string, files Files, folder string) (string, error) {
	path := filepath.Join(folder, platform.Archive())
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("failed to create the archive: %w", err)
	}
	sum := sha256.New()
	contents := []content{{platform.Binary(), binary, 0o755}, {"LICENSE", files.License, 0o644}}
	if platform.completes() {
		contents = append(contents, content{completion, files.Completion, 0o755})
	}
	err = pack(io.MultiWriter(file, sum), contents)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("failed to write %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// content is a file of an archive.
type content struct {
	name, path string
	mode       int64
}

func pack(out io.Writer, files []content) error {
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	for _, file := range files {
		data, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(data)),
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// The manifest as krew reads it (krew.googlecontainertools.github.com/v1alpha2).
type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type spec struct {
	Version          string           `json:"version"`
	Homepage         string           `json:"homepage"`
	ShortDescription string           `json:"shortDescription"`
	Description      string           `json:"description"`
	Caveats          string           `json:"caveats"`
	Platforms        []platformOfSpec `json:"platforms"`
}

type platformOfSpec struct {
	Selector selector        `json:"selector"`
	URI      string          `json:"uri"`
	SHA256   string          `json:"sha256"`
	Bin      string          `json:"bin"`
	Files    []fileOperation `json:"files"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type fileOperation struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Version is the form of versions that krew accepts: semantic ones with a leading v.
var Version = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// Manifest returns the manifest of a version whose archives have the given checksums.
func Manifest(version string, sums map[Platform]string) ([]byte, error) {
	if !Version.MatchString(version) {
		return nil, fmt.Errorf("the version is %q; krew takes semantic versions as in v0.1.0 (VERSION=v0.1.0)", version)
	}
	out := manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: metadata{Name: plugin},
		Spec: spec{
			Version: version, Homepage: homepage,
			ShortDescription: "Migrate control planes of Gardener shoots live",
			Description: "Plans, starts, shows, steers and proves live migrations of the control planes of Gardener " +
				"shoots from one seed\n" +
				"to another (GEP-0039). The migrations are carried out by livecpm's agents in the seeds.\n",
			Caveats: "The kubeconfig is that of the garden. Give --seed-kubeconfig NAME=PATH to see what is in " +
				"the seeds.\n" +
				"For completion, put a script into a folder of your PATH:\n" +
				"  kubectl livecpm completion kubectl >FOLDER/" + completion + " && chmod +x FOLDER/" + completion +
				"\n",
		},
	}
	for _, platform := range Platforms {
		sum, ok := sums[platform]
		if !ok {
			return nil, fmt.Errorf("there is no archive for %s/%s", platform.OS, platform.Arch)
		}
		operations := []fileOperation{{From: platform.Binary(), To: "."}, {From: "LICENSE", To: "."}}
		if platform.completes() {
			operations = append(operations, fileOperation{From: completion, To: "."})
		}
		out.Spec.Platforms = append(out.Spec.Platforms, platformOfSpec{
			Selector: selector{MatchLabels: map[string]string{"os": platform.OS, "arch": platform.Arch}},
			URI:      fmt.Sprintf("%s/releases/download/%s/%s", homepage, version, platform.Archive()),
			SHA256:   sum, Bin: platform.Binary(), Files: operations,
		})
	}
	data, err := yaml.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("failed to write the manifest: %w", err)
	}
	return data, nil
}
