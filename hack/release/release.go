// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package release makes all files of a release in one folder: images for several architectures, packed charts, the
// manifest that registers the agent, the kubectl plugin for all platforms, bills of materials, licences, and the
// checksums of them all. The same sources, version, registry, authorities and version of Go make the same bytes.
package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"github.com/livecpm/livecpm/charts"
	"github.com/livecpm/livecpm/hack/examples"
	"github.com/livecpm/livecpm/hack/images"
	"github.com/livecpm/livecpm/hack/krew"
)

const (
	// ChecksumFile names all other files with their SHA-256 checksums, as sha256sum -c reads them.
	ChecksumFile = "SHA256SUMS"
	// NotesFile has what the changelog says of the version.
	NotesFile = "release-notes.md"
	// plugin is the program that operators run themselves.
	plugin = "kubectl-livecpm"
)

// Architectures are those of the images.
var Architectures = []string{"amd64", "arm64"}

// Options tell what to release.
type Options struct {
	// Repository is the folder of the repository.
	Repository string
	// Changelog is the file with a section for every version, in the repository: CHANGELOG.md.
	Changelog string
	// Out is the folder for the files, which must not exist or be empty.
	Out string
	// Version is a semantic version with a leading v.
	Version string
	// Registry is where the images will be: what their references begin with.
	Registry string
	// CABundle is the file with the certificate authorities.
	CABundle string
	// Commands are the programs that become images.
	Commands []images.Command
	// Compile builds the plugin: images.Compile but in tests.
	Compile func(ctx context.Context, program images.Program) error
}

var validRegistry = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*$`)

// Build makes the release.
func Build(ctx context.Context, options Options) error {
	if !krew.Version.MatchString(options.Version) {
		return fmt.Errorf("the version is %q; a release has a semantic version as in v0.1.0 (VERSION=v0.1.0)",
			options.Version)
	}
	if !validRegistry.MatchString(options.Registry) {
		return fmt.Errorf("the registry is %q; it is what references of images begin with, as in "+
			"registry.example.com/livecpm", options.Registry)
	}
	entries, err := os.ReadDir(options.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to look into the folder for the release: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("there is something in %s already: remove it first", options.Out)
	}
	if err := os.MkdirAll(options.Out, 0o755); err != nil { // #nosec G301 -- To be read by everybody.
		return fmt.Errorf("failed to make the folder for the release: %w", err)
	}

	// What fails soonest comes first.
	for _, step := range []func(context.Context, Options) error{
		writeNotes, writeDocuments, writeCharts, writePlugin, writeImages,
	} {
		if err := step(ctx, options); err != nil {
			return err
		}
	}
	return writeChecksums(options.Out)
}

// writeNotes writes the section of the version. A version without one is not released: nobody could tell what is in it.
func writeNotes(_ context.Context, options Options) error {
	file := filepath.Join(options.Repository, options.Changelog)
	changelog, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the changelog: %w", err)
	}
	notes, err := Notes(string(changelog), options.Version)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return writeFile(options, NotesFile, []byte(notes))
}

// Notes returns what a changelog says of the version: the text below the heading "## v1.2.3" or "## v1.2.3 (date)", up
// to the next heading of that level. It fails if there is no such section, or nothing in it.
func Notes(changelog, version string) (string, error) {
	var notes strings.Builder
	inside := false
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(heading), " ")
			inside = name == version
			continue
		}
		if inside {
			notes.WriteString(line)
		}
	}
	text := strings.TrimSpace(notes.String())
	if text == "" {
		return "", fmt.Errorf("there is nothing below a heading \"## %s\": say what is in this release, "+
			"by renaming \"## Unreleased\"", version)
	}
	return text + "\n", nil
}

func writeDocuments(_ context.Context, options Options) error {
	for from, to := range map[string]string{"LICENSE": "LICENSE", filepath.Join("docs", "licences.md"): "licences.md"} {
		content, err := os.ReadFile(filepath.Join(options.Repository, from))
		if err != nil {
			return fmt.Errorf("failed to read what comes with the release: %w", err)
		}
		if err := writeFile(options, to, content); err != nil {
			return err
		}
	}
	return nil
}

// writeCharts writes the packed charts and, with the agent's in it, the manifest that registers the agent.
func writeCharts(_ context.Context, options Options) error {
	for _, chart := range []string{charts.Agent, charts.Garden} {
		archive, err := packChart(chart, options)
		if err != nil {
			return err
		}
		if err := writeFile(options, chart+"-"+strings.TrimPrefix(options.Version, "v")+".tgz", archive); err != nil {
			return err
		}
		if chart != charts.Agent {
			continue
		}
		registration, err := examples.ControllerRegistrationWith(archive, options.Registry, options.Version)
		if err != nil {
			return err
		}
		if err := writeFile(options, filepath.Base(examples.ControllerRegistration), registration); err != nil {
			return err
		}
	}
	return nil
}

// writePlugin writes archives, manifest and bills of materials of the kubectl plugin.
func writePlugin(ctx context.Context, options Options) error {
	gardener, err := images.ModuleVersion(ctx, options.Repository, images.GardenerModule)
	if err != nil {
		return err
	}
	_, err = krew.Build(options.Version, krew.FilesOf(options.Repository), options.Out,
		func(platform krew.Platform, binary string) error {
			if err := options.Compile(ctx, images.Program{
				Repository: options.Repository, Package: "./cmd/" + plugin, Binary: binary,
				OS: platform.OS, Architecture: platform.Arch, Gardener: gardener,
				Release: options.Version,
			}); err != nil {
				return err
			}
			digest, err := checksum(binary)
			if err != nil {
				return err
			}
			file := fmt.Sprintf("%s_%s_%s", plugin, platform.OS, platform.Arch)
			return images.WriteSBOM(filepath.Join(options.Out, file+images.SBOMSuffix), binary, images.Subject{
				Name: plugin, Version: options.Version, Reference: file, Digest: "sha256:" + digest,
				Type: cyclonedx.ComponentTypeApplication,
			})
		})
	return err
}

func writeImages(ctx context.Context, options Options) error {
	_, err := images.Build(ctx, images.Options{
		Repository: options.Repository, Out: options.Out, Registry: options.Registry, Version: options.Version,
		CABundle: options.CABundle,
		Commands: options.Commands, Architectures: Architectures,
	})
	return err
}

// writeChecksums writes the checksums of all files, in the order of their names.
func writeChecksums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("failed to list the release: %w", err)
	}
	var lines strings.Builder
	for _, entry := range entries {
		sum, err := checksum(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, entry.Name())
	}
	return writeFile(Options{Out: folder}, ChecksumFile, []byte(lines.String()))
}

func checksum(path string) (string, error) {
	file, err := os.Open(path) // #nosec G304 -- One of the files that were just written.
	if err != nil {
		return "", fmt.Errorf("failed to open %s: %w", path, err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("failed to read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func writeFile(options Options, name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(options.Out, name), content,
		0o644); err != nil { // #nosec G306 -- To be read by everybody.
		return fmt.Errorf("failed to write %s: %w", name, err)
	}
	return nil
}
