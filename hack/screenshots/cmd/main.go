// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command cmd writes pictures of the plugin's screens, of the report of a recorded migration, and of the dashboard of
// one that is under way.
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
	"github.com/livecpm/livecpm/pkg/cli/dashboard"
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
	if err := drawTerminals(out); err != nil {
		return err
	}
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
	browser := screenshots.Browser{Path: path}
	for _, picture := range pictures(out, "report") {
		if err := browser.Write(ctx, page, picture); err != nil {
			return err
		}
		fmt.Println(picture.Path)
	}
	server, err := joining(ctx)
	if err != nil {
		return err
	}
	for _, picture := range pictures(out, "dashboard") {
		if err := browser.WriteOf(ctx, server.Handler(), picture); err != nil {
			return err
		}
		fmt.Println(picture.Path)
	}
	return nil
}

// drawTerminals draws the plugin's screens, for which no browser is needed.
func drawTerminals(out string) error {
	for _, picture := range screenshots.TerminalPictures() {
		shown, err := os.ReadFile(picture.Screen)
		if err != nil {
			return fmt.Errorf("failed to read the screen: %w", err)
		}
		svg, err := screenshots.Terminal(string(shown))
		if err != nil {
			return fmt.Errorf("failed to draw %s: %w", picture.Screen, err)
		}
		path := filepath.Join(out, picture.Name)
		if err := os.WriteFile(path, []byte(svg), 0o644); err != nil { // #nosec G306 -- everybody may see it.
			return fmt.Errorf("failed to write the picture: %w", err)
		}
		fmt.Println(path)
	}
	return nil
}

// pictures are those of one page, in two widths and both colour schemes.
func pictures(folder, name string) []screenshots.Picture {
	var out []screenshots.Picture
	for _, width := range []int{1280, 400} {
		for _, scheme := range []screenshots.Scheme{screenshots.Light, screenshots.Dark} {
			path := filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
			out = append(out, screenshots.Picture{Path: path, Width: width, Scheme: scheme})
		}
	}
	return out
}

// joining returns a dashboard that shows a migration in its second step.
func joining(ctx context.Context) (*dashboard.Server, error) {
	looks, err := screenshots.Joining(".")
	if err != nil {
		return nil, err
	}
	var look dashboard.Look
	server := &dashboard.Server{Read: func(context.Context) (dashboard.Look, error) { return look, nil }}
	for _, look = range looks {
		if err := server.Look(ctx); err != nil {
			return nil, err
		}
	}
	return server, nil
}
