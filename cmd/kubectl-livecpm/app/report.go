// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/proof/report"
)

const (
	reportHTML     = "html"
	reportMarkdown = "md"
	reportJSON     = "json"
)

var reportFormats = []string{reportHTML, reportMarkdown, reportJSON}

func newReport(o *options) *cobra.Command {
	var format, from, file string
	command := &cobra.Command{
		Use:   "report [SHOOT]",
		Short: "Write a report of a live migration: a page for browsers, Markdown or JSON",
		Long: "Write a report of a live migration: the steps by owner over time, the etcd members, what clients " +
			"noticed, and events. As HTML\n" +
			"it is one page that needs nothing from a network.\n\n" +
			"With --from, the report is made from the report.json that `make demo` writes, and the details.json " +
			"beside it. Otherwise\n" +
			"it is made from what the API server of the garden has: conditions with their times, and events,\nbut no " +
			"member lists and latencies.",
		Example: example(
			"%[1]s report live -n garden-demo --file live.html",
			"%[1]s report live -o md",
			"%[1]s report --from _artifacts/demo/report.json --file demo.html",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case !slices.Contains(reportFormats, format):
				return fmt.Errorf("--output is %q; it can be %s", format, strings.Join(reportFormats, ", "))
			case from == "" && len(args) == 0:
				return errors.New("give a shoot, or a recording with --from")
			case from != "" && len(args) > 0:
				return errors.New("a recording names its shoot: give either a shoot or --from")
			}
			var (
				made report.Report
				err  error
			)
			if from != "" {
				made, err = reportFrom(from)
			} else {
				made, err = o.reportOf(command.Context(), args[0])
			}
			if err != nil {
				return err
			}
			return o.writeReport(made, format, file)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&format, "output", "o", reportHTML, "format: "+strings.Join(reportFormats, ", "))
	flags.StringVar(&from, "from", "", "report.json of a recorded migration")
	flags.StringVar(&file, "file", "", "file to write (default: standard output)")
	complete(command, "output", func(*cobra.Command) ([]string, error) { return reportFormats, nil })
	completeArgument(command, o.shoots)
	return command
}

func reportFrom(path string) (report.Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return report.Report{}, fmt.Errorf("failed to read the recorded report: %w", err)
	}
	details, err := os.ReadFile(filepath.Join(filepath.Dir(path), "details.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report.Report{}, fmt.Errorf("failed to read the details of the recorded report: %w", err)
	}
	return report.FromRecording(data, details)
}

func (o *options) reportOf(ctx context.Context, name string) (report.Report, error) {
	g, err := o.garden.Connect()
	if err != nil {
		return report.Report{}, err
	}
	shoot, err := g.Shoot(ctx, name)
	if err != nil {
		return report.Report{}, err
	}
	events := &corev1.EventList{}
	if err := g.Client.List(ctx, events, client.InNamespace(shoot.Namespace), client.MatchingFieldsSelector{
		Selector: fields.SelectorFromSet(fields.Set{"involvedObject.kind": "Shoot", "involvedObject.name": shoot.Name}),
	}); err != nil {
		// Events are kept for an hour only; a report without them is still a report.
		_, _ = fmt.Fprintf(o.Err, "The report has no events: failed to list those of Shoot %s: %v\n",
			client.ObjectKeyFromObject(shoot), err)
	}
	return report.FromShoot(shoot, events.Items, o.clock.Now())
}

func (o *options) writeReport(made report.Report, format, file string) error {
	var (
		text string
		err  error
	)
	switch format {
	case reportHTML:
		text, err = report.HTML(made)
	case reportMarkdown:
		text = report.Markdown(made)
	default:
		var data []byte
		data, err = json.MarshalIndent(made, "", "  ")
		text = string(data) + "\n"
	}
	if err != nil {
		return err
	}
	if file == "" {
		_, err := io.WriteString(o.Out, text)
		return err
	}
	// #nosec G306 -- To be shown around; nothing secret is in it.
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("failed to write the report: %w", err)
	}
	_, err = fmt.Fprintf(o.Err, "Wrote %s.\n", file)
	return err
}
