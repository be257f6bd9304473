// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command licences lists the modules whose code is in the programs that livecpm ships, with their licences. It fails
// where a module has a licence that is not permitted, or none that is recognized. It is a module of its own, so that
// what recognizes the licences is no dependency of livecpm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/google/licenseclassifier/v2/assets"
)

// permitted are the licences that were agreed to. None of them asks for anything of what links the code, but for
// notices; the Mozilla licence asks for the source of files that were changed, and none is. The last two give the code
// to everybody.
var permitted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "MIT-0", "Unlicense"}

// read are the licences of files, by module and name, that somebody has read because no text is like them. An empty one
// means that the file is about nothing that is shipped.
var read = map[string]map[string]string{
	"github.com/coder/quartz":             {"LICENSE": "MIT-0"},
	"github.com/opencontainers/go-digest": {"LICENSE.docs": ""}, // of the documentation
}

// platforms are what the programs are shipped for, with the packages of each.
var platforms = map[string][]string{
	"linux":   {"./cmd/..."},
	"darwin":  {"./cmd/kubectl-livecpm"},
	"windows": {"./cmd/kubectl-livecpm"},
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	repository := flag.String("repository", filepath.Join("..", ".."), "folder of the repository")
	list := flag.String("list", filepath.Join("docs", "licences.md"), "file for the list, in the repository")
	check := flag.Bool("check", false, "compare with the file instead of writing it")
	flag.Parse()
	use := write
	if *check {
		use = compare
	}
	if err := run(ctx, *repository, filepath.Join(*repository, *list), use); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// run lists the modules that are shipped, and has the list written to the file or compared with it.
func run(ctx context.Context, repository, file string, use func(file, list string) error) error {
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return fmt.Errorf("failed to load the texts of licences: %w", err)
	}
	modules, err := shipped(ctx, repository)
	if err != nil {
		return err
	}
	var errs []error
	for i := range modules {
		if err := modules[i].recognize(classifier, permitted); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}

	if err := use(file, render(modules)); err != nil {
		return err
	}
	fmt.Printf("%d modules, all under %v\n", len(modules), permitted)
	return nil
}

func write(file, list string) error { return os.WriteFile(file, []byte(list), 0o644) }

func compare(file, list string) error {
	current, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the list (make licenses writes it): %w", err)
	}
	if string(current) != list {
		return fmt.Errorf("%s is not up to date: run make licenses, and look at what has changed", file)
	}
	return nil
}
