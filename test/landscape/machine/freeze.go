// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// immutable is the flag of a folder in which nobody can make, remove or rename anything, root included: FS_IMMUTABLE_FL
// (see ioctl_iflags(2)). That of statx has the same value.
const immutable = unix.STATX_ATTR_IMMUTABLE

// Freeze lets nobody change what is in a folder. It needs a file system that knows about it, as ext4, XFS and Btrfs do.
func Freeze(folder string) error {
	return onFlags(folder, func(fd, flags int) error {
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|immutable)
	})
}

// Thaw lets everybody change again what is in a folder.
func Thaw(folder string) error {
	return onFlags(folder, func(fd, flags int) error {
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^immutable)
	})
}

// Frozen reports whether nobody can change what is in a folder.
func Frozen(folder string) (frozen bool, err error) {
	err = onFlags(folder, func(_, flags int) error {
		frozen = flags&immutable != 0
		return nil
	})
	return frozen, err
}

func onFlags(folder string, do func(fd, flags int) error) error {
	opened, err := os.Open(folder) // #nosec G304 -- a folder of the landscape.
	if err != nil {
		return fmt.Errorf("failed to open folder %s: %w", folder, err)
	}
	defer func() { _ = opened.Close() }()
	fd := int(opened.Fd()) // #nosec G115 -- a file descriptor.
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return fmt.Errorf("failed to read the flags of folder %s: %w", folder, err)
	}
	if err := do(fd, flags); err != nil {
		return fmt.Errorf("failed to change the flags of folder %s: %w", folder, err)
	}
	return nil
}
