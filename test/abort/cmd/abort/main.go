// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command abort aborts a live migration on the landscape at each moment at which that is permitted, and prints what is
// not as it was before. It exits with 0 only if everything is.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/livecpm/livecpm/test/abort"
	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

func main() {
	moments := flag.String("moments", "", "comma-separated names, or parts of names, of the moments; all if empty")
	faultName := flag.String("fault", "",
		"name of a fault of the fault suite that strikes right before the abort is asked for; none if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *moments, *faultName, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "abort:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, moments, faultName string, out io.Writer) error {
	chosen, trouble, err := abort.Choose(moments, faultName)
	if err != nil {
		return err
	}
	cfg, err := config.FromEnvironment()
	if err != nil {
		return err
	}
	if err := landscape.New(cfg, out).Up(ctx); err != nil {
		return err
	}

	table := "| abort asked for | fault | the condition said | seconds | not as before |\n| --- | --- | --- | " +
		"--- | --- |\n"
	differences := 0
	for _, moment := range chosen {
		result, err := abort.Run(ctx, abort.Options{Landscape: cfg, Namespace: shoot.Namespace, Name: "live",
			Moment: moment, Fault: trouble, Out: out})
		if err != nil {
			return fmt.Errorf("failed to abort %s: %w", moment.Name, err)
		}
		differences += len(result.Diff)
		diff := "nothing"
		if len(result.Diff) > 0 {
			diff = strings.Join(result.Diff, "<br>")
		}
		table += fmt.Sprintf("| %s | %s | %s | %.0f | %s |\n", result.Moment, result.Fault, result.At, result.Seconds,
			diff)
	}
	if _, err := fmt.Fprint(out, "\n"+table); err != nil {
		return fmt.Errorf("failed to print: %w", err)
	}

	folder := filepath.Join(cfg.Repo, "_artifacts", "abort")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to make folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "aborts.md"), []byte(table),
		0o644); err != nil { //nolint:gosec // It is for everybody.
		return fmt.Errorf("failed to write the table: %w", err)
	}
	if differences > 0 {
		return fmt.Errorf("%d things are not as they were before", differences)
	}
	return nil
}
