// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package evidence says what a result of the fault suite was made with, and whether that is still what the repository
// has: the commit, the programs on the landscape, and the source of each package of the product.
package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build is what results were made with.
type Build struct {
	// Commit is the hash of the commit that was checked out.
	Commit string `json:"commit"`
	// Changed is true if files differed from that commit. Packages says what the packages were in any case.
	Changed bool `json:"changed,omitempty"`
	// Binaries and Images are the programs that the landscape has, and the image archives that its pods run: SHA-256 by
	// name.
	Binaries map[string]string `json:"binaries"`
	Images   map[string]string `json:"images"`
	// Packages are the packages of the product: SHA-256 of their source by path, from the root of the repository.
	Packages map[string]string `json:"packages"`
}

// Key returns the name of the build in a matrix: its commit, and what tells it from others of that commit. Builds with
// the same key are the same.
func (b Build) Key() (string, error) {
	encoded, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("failed to encode what the results were made with: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return Short(b.Commit) + "-" + hex.EncodeToString(sum[:4]), nil
}

// shortCommit is how many digits of a commit people read.
const shortCommit = 10

// Short returns the first digits of a commit.
func Short(commit string) string { return commit[:min(len(commit), shortCommit)] }

// Place is where Take looks.
type Place struct {
	// Repository is the root of the repository.
	Repository string
	// Binaries and Images are the folders of the landscape with the programs and the image archives.
	Binaries, Images string
}

// Take finds out what results that are made now are made with. It fails if it cannot read the commit, if the landscape
// has no program or no image, or if the packages cannot be listed: a result that cannot say what it is about is none.
func Take(ctx context.Context, place Place) (*Build, error) {
	var (
		build = &Build{}
		err   error
	)
	if build.Commit, build.Changed, err = Commit(ctx, place.Repository); err != nil {
		return nil, err
	}
	if build.Binaries, err = files(place.Binaries); err != nil {
		return nil, err
	}
	if build.Images, err = files(place.Images); err != nil {
		return nil, err
	}
	sources, err := Load(ctx, place.Repository)
	if err != nil {
		return nil, err
	}
	build.Packages = sources.Digests()
	return build, nil
}

// Commit returns what is checked out, and whether files differ from it. Pages do not count: the results of the
// migrations before may just have been recorded.
func Commit(ctx context.Context, repository string) (head string, changed bool, err error) {
	git := func(args ...string) (string, error) {
		// #nosec G204 -- the caller names the folder.
		output, err := exec.CommandContext(ctx, "git", append([]string{"-C", repository}, args...)...).Output()
		return strings.TrimSpace(string(output)), err
	}
	if head, err = git("rev-parse", "HEAD"); err != nil {
		return "", false, fmt.Errorf("failed to find out the commit, run this in a clone of the repository: %w", err)
	}
	status, err := git("status", "--porcelain", "--", ".", ":(exclude)docs")
	if err != nil {
		return "", false, fmt.Errorf("failed to find out whether files differ from the commit: %w", err)
	}
	return head, status != "", nil
}

// files returns the SHA-256 of each file in the folder by its name.
func files(folder string) (map[string]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to list what the landscape has: %w", err)
	}
	sums := map[string]string{}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		if sums[entry.Name()], err = file(filepath.Join(folder, entry.Name())); err != nil {
			return nil, err
		}
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("there is no file in %s: bring the landscape up first", folder)
	}
	return sums, nil
}

// file returns the SHA-256 of a file.
func file(path string) (string, error) {
	content, err := os.Open(path) // #nosec G304 -- the caller names the folder.
	if err != nil {
		return "", fmt.Errorf("failed to read what results are made with: %w", err)
	}
	defer func() { _ = content.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return "", fmt.Errorf("failed to read %s, which results are made with: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
