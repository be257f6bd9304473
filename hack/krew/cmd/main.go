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
	sums := map[krew.Platform]string{}
	// A version that krew refuses should not cost a build.
	for _, platform := range krew.Platforms {
		sums[platform] = ""
	}
	if _, err := krew.Manifest(version, sums); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("failed to create %s: %w", out, err)
	}
	for _, platform := range krew.Platforms {
		binary := filepath.Join(out, platform.OS+"_"+platform.Arch, platform.Binary())
		build := exec.Command("go", "build", "-trimpath", "-ldflags", ldflags, "-o", binary, "./cmd/kubectl-livecpm")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Arch)
		build.Stdout, build.Stderr = os.Stdout, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("failed to build for %s/%s: %w", platform.OS, platform.Arch, err)
		}
		sum, err := krew.Pack(platform, binary, "LICENSE", out)
		if err != nil {
			return err
		}
		sums[platform] = sum
		fmt.Printf("%s  %s\n", sum, filepath.Join(out, platform.Archive()))
	}
	manifest, err := krew.Manifest(version, sums)
	if err != nil {
		return err
	}
	path := filepath.Join(out, "livecpm.yaml")
	if err := os.WriteFile(path, manifest, 0o644); err != nil {
		return fmt.Errorf("failed to write the manifest: %w", err)
	}
	fmt.Println(path)
	return nil
}
