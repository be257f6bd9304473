// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command cmd writes the generated files of the folder examples.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/livecpm/livecpm/hack/examples"
)

func main() {
	out := flag.String("out", "examples", "the folder examples")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "examples:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	files, err := examples.Files()
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(out, path), content,
			0o644); err != nil { // #nosec G306 -- everybody may read the examples.
			return fmt.Errorf("failed to write %s: %w", path, err)
		}
	}
	return nil
}
