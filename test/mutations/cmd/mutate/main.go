// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command mutate puts deliberate faults into the product, one after the other, and fails unless the specs notice each
// of them. Nothing in the work tree changes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/livecpm/livecpm/test/mutations"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(out)
	var (
		runner = mutations.Runner{Out: out}
		focus  = flags.String("focus", "", "regular expression: only mutations whose names match are tried")
		sample = flags.Int("sample", 0, "how many mutations to try, chosen by --commit; 0 stands for all")
		commit = flags.String("commit", "", "hash of the commit that chooses the sample")
	)
	flags.StringVar(&runner.Root, "repo", ".", "root of the repository")
	flags.DurationVar(&runner.Timeout, "timeout", mutations.DefaultTimeout, "how long the specs of a package may take")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: name mutations with --focus", flags.Arg(0))
	}
	chosen, err := mutations.Focus(mutations.Table(), *focus)
	if err == nil && *sample != 0 {
		chosen, err = mutations.Sample(chosen, *sample, *commit)
	}
	if err != nil {
		return err
	}
	return runner.Run(ctx, chosen)
}
