// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command chown stands in for the alpine image that etcd-druid uses for one thing only: with a local backup store, an
// init container runs `chown -R UID:GID PATH` (no shell) so that etcd's unprivileged user may write the backup folder.
// The job that copies the backups of a classic migration names two folders.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chown:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 || args[0] != "-R" {
		return errors.New("usage: chown -R UID:GID PATH [PATH ...]")
	}
	user, group, found := strings.Cut(args[1], ":")
	if !found {
		return fmt.Errorf("failed to parse owner %q: want UID:GID", args[1])
	}
	uid, err := strconv.Atoi(user)
	if err != nil {
		return fmt.Errorf("failed to parse user of owner %q: %w", args[1], err)
	}
	gid, err := strconv.Atoi(group)
	if err != nil {
		return fmt.Errorf("failed to parse group of owner %q: %w", args[1], err)
	}
	for _, folder := range args[2:] {
		if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			// The three members of one etcd share the store's folder: files may be renamed or deleted during the walk.
			if err == nil {
				err = os.Lchown(path, uid, gid)
			}
			if errors.Is(err, fs.ErrNotExist) && path != folder {
				return nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
