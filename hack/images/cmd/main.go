// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command images builds the container images of livecpm. It prints reference, digest, file and bill of
// materials of each.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/livecpm/livecpm/hack/images"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	options := images.Options{Commands: images.Commands}
	var tags string
	flag.StringVar(&options.Repository, "repository", ".", "folder of the repository")
	flag.StringVar(&options.Out, "out", "bin/images", "folder for the tarballs")
	flag.StringVar(&options.Registry, "registry", "livecpm.local", "what the references begin with")
	flag.StringVar(&options.Version, "version", "",
		"tag of the images (default: what git describe says, else the file VERSION)")
	flag.StringVar(&options.CABundle, "ca-bundle", images.DefaultCABundle,
		"file with the certificate authorities for the images")
	flag.StringVar(&tags, "extra-tags", "latest", "further tags, separated by commas")
	flag.Parse()

	for tag := range strings.SplitSeq(tags, ",") {
		if tag != "" {
			options.ExtraTags = append(options.ExtraTags, tag)
		}
	}
	if options.Version == "" {
		version, err := images.Version(ctx, options.Repository)
		if err != nil {
			return err
		}
		options.Version = version
	}
	built, err := images.Build(ctx, options)
	if err != nil {
		return err
	}
	images.Print(os.Stdout, built)
	return nil
}
