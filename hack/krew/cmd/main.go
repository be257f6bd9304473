// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command cmd builds kubectl-livecpm for all platforms, packs it for krew, and writes the manifest.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/livecpm/livecpm/hack/krew"
)

func main() {
	version := flag.String("version", "", "version, as in v0.1.0")
	out := flag.String("out", filepath.Join("bin", "krew"), "folder of the archives and the manifest")
	ldflags := flag.String("ldflags", "", "flags for the linker")
	flag.Parse()
	if err := run(*version, *out, *ldflags); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

func run(version, out, ldflags string) error {
	written, err := krew.Build(version, krew.FilesOf("."), out, func(platform krew.Platform, binary string) error {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", ldflags, "-o", binary, "./cmd/kubectl-livecpm")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Arch)
		build.Stdout, build.Stderr = os.Stdout, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("failed to build for %s/%s: %w", platform.OS, platform.Arch, err)
		}
		return nil
	})
	for _, name := range written {
		fmt.Println(filepath.Join(out, name))
	}
	return err
}
