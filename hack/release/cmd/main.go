// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command cmd makes all files of a release in one folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/livecpm/livecpm/hack/images"
	"github.com/livecpm/livecpm/hack/release"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	options := release.Options{Commands: images.Commands, Compile: images.Compile}
	flag.StringVar(&options.Repository, "repository", ".", "folder of the repository")
	flag.StringVar(&options.Changelog, "changelog", "CHANGELOG.md",
		"file of the repository with a section for the version")
	flag.StringVar(&options.Out, "out", "", "folder for the files (default: bin/release/<version>)")
	flag.StringVar(&options.Version, "version", "", "version, as in v0.1.0")
	flag.StringVar(&options.Registry, "registry", "livecpm.local",
		"where the images will be: what their references begin with")
	flag.StringVar(&options.CABundle, "ca-bundle", images.DefaultCABundle,
		"file with the certificate authorities for the images")
	flag.Parse()
	if options.Out == "" {
		options.Out = filepath.Join("bin", "release", options.Version)
	}
	if err := release.Build(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Println(filepath.Join(options.Out, release.ChecksumFile))
}
