// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package images builds the container images of livecpm as OCI tarballs: static binaries FROM scratch with the
// certificate authorities of the machine that builds them. No container engine takes part. The same sources, version
// and authorities give the same bytes. Each image has a bill of materials beside it.
package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"github.com/livecpm/livecpm/hack/images/tarball"
)

// GardenerModule is the module whose version the binaries report as Gardener's.
const GardenerModule = "github.com/gardener/gardener"

// DefaultCABundle is where Debian keeps the certificate authorities.
const DefaultCABundle = "/etc/ssl/certs/ca-certificates.crt"

// Command is a program that becomes an image of the same name.
type Command struct {
	// Name is the name of the image and of the program in it.
	Name string
	// Package is what to build, relative to the repository.
	Package string
}

// DropIn is the image of the gardenlet with the agent in its process.
const DropIn = "livecpm-gardenlet"

// Commands are the programs that livecpm ships.
var Commands = []Command{
	{Name: "livecpm-agent", Package: "./cmd/livecpm-agent"},
	{Name: "livecpm-controller-manager", Package: "./cmd/livecpm-controller-manager"},
	{Name: "livecpm-relay", Package: "./cmd/livecpm-relay"},
	// Takes the place of Gardener's image of the gardenlet.
	{Name: DropIn, Package: "./cmd/gardenlet"},
}

// Options tell what to build.
type Options struct {
	// Repository is the folder of the repository.
	Repository string
	// Out is the folder for the tarballs.
	Out string
	// Registry is what the references begin with.
	Registry string
	// Version is the tag. See Version.
	Version string
	// ExtraTags are further tags of the same image.
	ExtraTags []string
	// CABundle is the file with the certificate authorities.
	CABundle string
	// Commands are the programs.
	Commands []Command
	// Architectures are those that the images are for, in Go's words; none stands for that of this machine. If there
	// are several, each tarball holds the image for all of them.
	Architectures []string
}

// Image is a finished image.
type Image struct {
	// Name is the name of the program.
	Name string
	// References are the names under which the image can be run.
	References []string
	// File is the tarball.
	File string
	// Digest is the digest of the manifest, or of the index if the image is for several architectures.
	Digest string
	// SBOMs are the files with the bills of materials, one for each architecture.
	SBOMs []string
}

// Build builds all images.
func Build(ctx context.Context, options Options) ([]Image, error) {
	b, err := newBuilder(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Out, 0o755); err != nil {
		return nil, fmt.Errorf("failed to make the folder for images: %w", err)
	}
	if b.scratch, err = os.MkdirTemp("", "livecpm-images-"); err != nil {
		return nil, fmt.Errorf("failed to make a folder for binaries: %w", err)
	}
	defer os.RemoveAll(b.scratch)

	built := make([]Image, 0, len(options.Commands))
	for _, command := range options.Commands {
		image, err := b.build(ctx, command)
		if err != nil {
			return nil, err
		}
		built = append(built, image)
	}
	return built, nil
}

// builder is what all images of a build have in common.
type builder struct {
	Options
	authorities   []byte
	gardener, tag string
	scratch       string
}

func newBuilder(ctx context.Context, options Options) (*builder, error) {
	b := &builder{Options: options}
	var err error
	if b.authorities, err = os.ReadFile(options.CABundle); err != nil {
		return nil, fmt.Errorf("failed to read the certificate authorities (Debian package ca-certificates): %w", err)
	}
	if b.gardener, err = ModuleVersion(ctx, options.Repository, GardenerModule); err != nil {
		return nil, err
	}
	if b.tag, err = tagOf(options.Version); err != nil {
		return nil, err
	}
	if len(b.Architectures) == 0 {
		b.Architectures = []string{runtime.GOARCH}
	}
	return b, nil
}

// build builds the image of a command, for all architectures.
func (b *builder) build(ctx context.Context, command Command) (Image, error) {
	image := Image{Name: command.Name, File: filepath.Join(b.Out, command.Name+".tar")}
	for _, tag := range append([]string{b.tag}, b.ExtraTags...) {
		image.References = append(image.References, b.Registry+"/"+command.Name+":"+tag)
	}
	var contents []tarball.Image
	for _, architecture := range b.Architectures {
		program := Program{
			Repository: b.Repository, Package: command.Package,
			Binary: filepath.Join(b.scratch, command.Name+"_"+architecture),
			OS:     "linux", Architecture: architecture, Gardener: b.gardener, Release: b.tag,
		}
		if err := Compile(ctx, program); err != nil {
			return Image{}, err
		}
		content := b.content(image, program)
		var err error
		if image.Digest, err = content.Digest(); err != nil {
			return Image{}, fmt.Errorf("failed to compute the digest of image %s: %w", command.Name, err)
		}
		bill := filepath.Join(b.Out, command.Name+SBOMSuffix)
		if len(b.Architectures) > 1 {
			bill = filepath.Join(b.Out, command.Name+"_linux_"+architecture+SBOMSuffix)
		}
		if err := WriteSBOM(bill, program.Binary, Subject{
			Name: command.Name, Version: b.Version, Reference: image.References[0], Digest: image.Digest,
			Type: cyclonedx.ComponentTypeContainer,
		}); err != nil {
			return Image{}, err
		}
		image.SBOMs, contents = append(image.SBOMs, bill), append(contents, content)
	}
	err := tarball.WriteAtomically(image.File, func(w io.Writer) (err error) {
		if len(contents) == 1 {
			return tarball.Write(w, contents[0])
		}
		image.Digest, err = tarball.WriteMulti(w, contents...)
		return err
	})
	return image, err
}

// content describes the image for the architecture of the program.
func (b *builder) content(image Image, program Program) tarball.Image {
	return tarball.Image{
		Refs: image.References,
		Files: []tarball.File{
			{Path: "/" + image.Name, Source: program.Binary, Mode: 0o755},
			{Path: "/etc/ssl/certs/ca-certificates.crt", Data: b.authorities, Mode: 0o644},
		},
		Entrypoint: []string{"/" + image.Name},
		User:       "65532:65532",
		Labels: map[string]string{
			"org.opencontainers.image.title":    image.Name,
			"org.opencontainers.image.version":  b.Version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
		Architecture: program.Architecture,
	}
}

// Program is a program to compile.
type Program struct {
	// Repository is the folder of the repository.
	Repository string
	// Package is what to build, relative to the repository.
	Package string
	// Binary is the file to write.
	Binary string
	// OS and Architecture are what it is built for, in Go's words.
	OS, Architecture string
	// Gardener is the version of Gardener's module, Release that of livecpm.
	Gardener, Release string
}

// Compile builds a static binary that depends on nothing but the sources, the platform and the versions.
func Compile(ctx context.Context, program Program) error {
	// The version of component-base is what Gardener's packages report as their own, and the tag that they give to
	// Gardener's images.
	ldflags := "-s -w -buildid= -X k8s.io/component-base/version.gitVersion=" + program.Gardener +
		" -X k8s.io/component-base/version.gitTreeState=clean" +
		" -X github.com/livecpm/livecpm/pkg/release.version=" + program.Release
	if parts := strings.SplitN(strings.TrimPrefix(program.Gardener, "v"), ".", 3); len(parts) == 3 {
		ldflags += " -X k8s.io/component-base/version.gitMajor=" + parts[0] +
			" -X k8s.io/component-base/version.gitMinor=" + parts[1]
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags,
		"-o", program.Binary, program.Package)
	cmd.Dir = program.Repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+program.OS, "GOARCH="+program.Architecture)
	if flags := os.Getenv("GOFLAGS"); !strings.Contains(flags, "-mod=") {
		cmd.Env = append(cmd.Env, strings.TrimSuffix("GOFLAGS=-mod=readonly "+flags, " "))
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("failed to build %s for %s/%s: %w: %s", program.Package, program.OS, program.Architecture,
			err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Version returns what git says about the working copy, else the content of the file VERSION.
func Version(ctx context.Context, repository string) (string, error) {
	var output, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty", "--match", "v*")
	cmd.Dir, cmd.Stdout, cmd.Stderr = repository, &output, &stderr
	gitErr := cmd.Run()
	if version := strings.TrimSpace(output.String()); gitErr == nil && version != "" {
		return version, nil
	}

	content, err := os.ReadFile(filepath.Join(repository, "VERSION"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("failed to find out the version: there is no file VERSION, and git describe says: %s",
			strings.TrimSpace(stderr.String()))
	case err != nil:
		return "", fmt.Errorf("failed to read file VERSION: %w", err)
	}
	if version := strings.TrimSpace(string(content)); version != "" {
		return version, nil
	}
	return "", errors.New("failed to find out the version: the file VERSION is empty")
}

var validTag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// tagOf makes a tag of a version: a tag cannot hold the plus sign of semantic versions.
func tagOf(version string) (string, error) {
	tag := strings.ReplaceAll(version, "+", "-")
	if !validTag.MatchString(tag) {
		return "", fmt.Errorf("failed to make a tag of version %q", version)
	}
	return tag, nil
}

// ModuleVersion returns the version of a module that the repository requires.
func ModuleVersion(ctx context.Context, repository, module string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	cmd.Dir, cmd.Stderr = repository, &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("failed to find out the version of module %s: %w: %s", module, err,
			strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(output)), nil
}

// Print writes one line for each image.
func Print(w io.Writer, built []Image) {
	for _, image := range built {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", image.References[0], image.Digest, image.File,
			strings.Join(image.SBOMs, ","))
	}
}
