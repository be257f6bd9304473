// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command cmd writes pictures of the report of a recorded migration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/livecpm/livecpm/hack/screenshots"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

func main() {
	from := flag.String("from", filepath.Join("pkg", "proof", "report", "testdata", "report.json"),
		"report.json of a recorded migration, with details.json beside it")
	out := flag.String("out", filepath.Join("docs", "images"), "folder of the pictures")
	flag.Parse()
	if err := run(context.Background(), *from, *out); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, from, out string) error {
	recorded, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("failed to read the recording: %w", err)
	}
	details, err := os.ReadFile(filepath.Join(filepath.Dir(from), "details.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to read the recording: %w", err)
	}
	made, err := report.FromRecording(recorded, details)
	if err != nil {
		return err
	}
	page, err := report.HTML(made)
	if err != nil {
		return err
	}
	path, err := screenshots.FindBrowser()
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	for _, picture := range []screenshots.Picture{
		{Path: filepath.Join(out, "report-1280-light.png"), Width: 1280, Scheme: screenshots.Light},
		{Path: filepath.Join(out, "report-1280-dark.png"), Width: 1280, Scheme: screenshots.Dark},
		{Path: filepath.Join(out, "report-400-light.png"), Width: 400, Scheme: screenshots.Light},
		{Path: filepath.Join(out, "report-400-dark.png"), Width: 400, Scheme: screenshots.Dark},
	} {
		if err := (screenshots.Browser{Path: path}).Write(ctx, page, picture); err != nil {
			return err
		}
		fmt.Println(picture.Path)
	}
	return nil
}
