// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

func newDump(o *options) *cobra.Command {
	var (
		file  string
		since time.Duration
	)
	command := &cobra.Command{
		Use:   "dump [SHOOT]",
		Short: "Collect everything that a bug report needs in one archive, without secrets",
		Long: "Collect everything that a bug report needs in one archive: versions, the result of check, the gate, " +
			"the Seeds; and for a\n" +
			"shoot also the Shoot, its migration, events and logs, and from the seeds that there is access to its " +
			"Etcds, workloads,\n" +
			"services, policies and DNSRecords. Secrets and ConfigMaps are not read, and what may be secret in other " +
			"objects and in logs\n" +
			"is replaced by " + inspect.Redacted + ". Look into the archive before you send it.\n\n" +
			"The exit code is 1 if something could not be collected; the file MISSING in the archive says what.",
		Example: example(
			"%[1]s dump live --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s dump live --since 30m --file report.tar.gz",
			"%[1]s dump                             # the installation alone",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			files, missing, err := o.collect(command.Context(), name, since)
			if err != nil {
				return err
			}
			now := o.clock.Now().UTC()
			if file == "" {
				file = "livecpm-dump-" + now.Format("20060102-150405") + ".tar.gz"
			}
			if err := writeArchive(file, files, now); err != nil {
				return err
			}
			if err := o.print(dumpDocument(file, files, missing), func() string {
				return fmt.Sprintf("Wrote %s into %s. Look into it before you send it.\n",
					conditions.Count(len(files), "file"), file)
			}); err != nil {
				return err
			}
			return o.incomplete(missing)
		},
	}
	command.Flags().StringVar(&file, "file", "", "file to write (default: livecpm-dump-<time>.tar.gz)")
	command.Flags().DurationVar(&since, "since", 0,
		"events and logs that are not older than this, as in 10m (default: since the migration began)")
	o.addRuntimeAccess(command)
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

// dumpDocument names the archive.
func dumpDocument(file string, files []inspect.DumpFile, missing error) document.Document {
	value := struct {
		// File is the archive, Files are the names in it, Missing says what could not be collected.
		File    string   `json:"file"`
		Files   []string `json:"files"`
		Missing string   `json:"missing,omitempty"`
	}{File: file, Files: namesOf(files, func(file inspect.DumpFile) string { return file.Name })}
	if missing != nil {
		value.Missing = missing.Error()
	}
	return document.Document{Kind: document.Dump, Value: value, Names: []string{file}}
}

// collect returns the files of the dump, and what could not be collected.
func (o *options) collect(
	ctx context.Context, name string, since time.Duration,
) (files []inspect.DumpFile, missing, err error) {
	s, err := o.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	dump := &inspect.Dump{}
	var seeds []string
	if name != "" {
		w, err := s.lookAtAll(name)(ctx)
		if err != nil {
			return nil, nil, err
		}
		migration := summary.Summarize(w.Shoot, w.Now.Time)
		seeds = s.seedsOf(migration)
		dump.Data("migration.yaml", picture{Summary: migration, Seeds: w.Seeds, Probe: w.Probe})
		dump.Text("migration.txt", view.Tree(w, view.Options{Wide: true}))
		runtime, err := s.openRuntime()
		if err != nil {
			return nil, nil, err
		}
		dump.Migration(ctx, inspect.Timeline{Garden: s.garden, Seeds: s.seeds, Runtime: runtime, Shoot: w.Shoot,
			Since: o.since(migration, since)}, seeds...)
	}
	in, err := inspect.InstallationReader{Garden: s.garden, Seeds: s.seeds, Credentials: s.config.SeedAccess,
		Plugin: pluginVersion(), Clock: o.clock}.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	dump.Installation(in)
	files, missing = dump.Files()
	return files, missing, nil
}

// writeArchive writes the files to a new archive that nobody else may read.
func writeArchive(path string, files []inspect.DumpFile, now time.Time) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the user says which.
	if err != nil {
		return fmt.Errorf("failed to create the archive: %w", err)
	}
	if err := errors.Join(pack(out, files, now), out.Close()); err != nil {
		return fmt.Errorf("failed to write %s: %w", path, err)
	}
	return nil
}

func pack(out io.Writer, files []inspect.DumpFile, now time.Time) error {
	zipped := gzip.NewWriter(out)
	archive := tar.NewWriter(zipped)
	for _, file := range files {
		if err := archive.WriteHeader(&tar.Header{Name: "livecpm-dump/" + file.Name, Mode: 0o600, ModTime: now,
			Size: int64(len(file.Content))}); err != nil {
			return err
		}
		if _, err := archive.Write(file.Content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}
