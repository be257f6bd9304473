// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command volhelper makes and removes the folder of a volume for local-path-provisioner, whose own helper scripts would
// need a shell. The provisioner calls it with -p <folder> -s <size> -m <mode> -a create|delete.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	folder := flag.String("p", "", "folder of the volume")
	action := flag.String("a", "", "create or delete")
	// The provisioner always passes these; a folder has neither size nor mode.
	flag.String("s", "", "size of the volume, ignored")
	flag.String("m", "", "mode of the volume, ignored")
	flag.Parse()
	if err := run(*action, *folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(action, folder string) error {
	if folder == "" {
		return fmt.Errorf("no folder given")
	}
	switch action {
	case "create":
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return fmt.Errorf("failed to make volume: %w", err)
		}
		// Past the umask: pods run as any user.
		return os.Chmod(folder, 0o777)
	case "delete":
		return os.RemoveAll(folder)
	default:
		return fmt.Errorf("unknown action %q", action)
	}
}
