// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/proof/report"
)

const (
	reportHTML     = "html"
	reportMarkdown = "md"

	// flagRecording is the flag for a recorded migration.
	flagRecording = "recording"
)

// reportFlags are what the user can choose about a report.
type reportFlags struct {
	ticketFlags
	recording, file string
}

func newReport(o *options) *cobra.Command {
	f := &reportFlags{}
	command := &cobra.Command{
		Use:   "report [SHOOT]",
		Short: "Write a report of a live migration: a page for browsers, Markdown or JSON",
		Long: "Write a report of a live migration: the steps by owner over time, the etcd members, what clients " +
			"noticed, and events. As HTML\n" +
			"it is one page that needs nothing from a network.\n\n" +
			"Without -o, the format is that of the name of the --file. Without a file it is HTML, or Markdown on a " +
			"terminal.\n\n" +
			"With --recording, the report is made from the report.json that `make demo` writes, and the details.json " +
			"beside it. Otherwise\n" +
			"it is made from what the API server of the garden has: conditions with their times, and events,\nbut no " +
			"member lists and latencies.\n\n" +
			"With --ticket, it is the report that one attaches to a change ticket: the facts (who, what, when, " +
			"versions, members, counts,\nresult) with a digest or, with --sign-key, a signature over them. What is " +
			"not known is said as not known.",
		Example: example(
			"%[1]s report live -n garden-demo --file live.html",
			"%[1]s report live -o md",
			"%[1]s report live --ticket --baseline before.json --probe-result probe.json --sign-key key.pem "+
				"--file live.pdf",
			"%[1]s report verify live.pdf --key key.pub.pem",
			"%[1]s report --recording _artifacts/demo/report.json --file demo.html",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return o.reportWith(command.Context(), args, f)
		},
	}
	flags := command.Flags()
	o.addFormats(command, "", reportHTML, reportMarkdown, reportPDF)
	flags.StringVar(&f.recording, flagRecording, "", "report.json of a recorded migration")
	flags.StringVar(&f.recording, "from", "", "")
	old(command, "from", "--"+flagRecording)
	command.MarkFlagsMutuallyExclusive("from", flagRecording)
	flags.StringVar(&f.file, flagFile, "", "file to write (default: standard output)")
	f.addTo(flags)
	command.AddCommand(newReportVerify(o))
	completeArgument(command, o.shoots)
	return command
}

// reportWith writes the report of the recording, or of the shoot that the arguments name if there is none.
func (o *options) reportWith(ctx context.Context, args []string, f *reportFlags) error {
	switch {
	case f.recording == "" && len(args) == 0:
		return errors.New("give a shoot, or a recording with --recording")
	case f.recording != "" && len(args) > 0:
		return errors.New("a recording names its shoot: give either a shoot or --recording")
	}
	if err := f.check(); err != nil {
		return err
	}
	if err := o.chooseFormat(f); err != nil {
		return err
	}
	if f.ticket {
		return o.writeTicket(ctx, strings.Join(args, ""), f)
	}
	var (
		made report.Report
		err  error
	)
	if f.recording != "" {
		made, err = reportFrom(f.recording)
	} else {
		made, err = o.reportOf(ctx, args[0])
	}
	if err != nil {
		return err
	}
	return o.writeReport(made, f.file)
}

// chooseFormat chooses the format of the report if the user has not, and refuses what is not for terminals on one.
func (o *options) chooseFormat(f *reportFlags) error {
	_, _, terminal := o.terminal()
	onTerminal := f.file == "" && terminal
	if o.output == "" {
		switch ending := strings.TrimPrefix(filepath.Ext(f.file), "."); {
		case slices.Contains([]string{document.JSON, document.YAML, reportMarkdown, reportPDF}, ending):
			o.output = ending
		case onTerminal:
			o.output = reportMarkdown
		default:
			o.output = reportHTML
		}
		var err error
		if o.printer, err = document.NewPrinter(o.output, reportHTML, reportMarkdown, reportPDF); err != nil {
			return err
		}
	}
	switch {
	case o.output == reportPDF && !f.ticket:
		return errors.New("only the report for a change ticket can be a PDF: add --ticket, or choose -o html")
	case onTerminal && o.output == reportHTML:
		return errors.New("HTML is not for terminals: write it to a file with --file, or choose -o md")
	case onTerminal && o.output == reportPDF:
		return errors.New("PDF is not for terminals: write it to a file with --file, or choose -o md")
	}
	return nil
}

func reportFrom(file string) (report.Report, error) {
	data, details, err := readRecording(file)
	if err != nil {
		return report.Report{}, err
	}
	return report.FromRecording(data, details)
}

// readRecording reads a recorded report, and the details beside it; these are empty if there are none.
func readRecording(file string) (data, details []byte, err error) {
	if data, err = os.ReadFile(file); err != nil {
		return nil, nil, fmt.Errorf("failed to read the recorded report: %w", err)
	}
	details, err = os.ReadFile(filepath.Join(filepath.Dir(file), "details.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("failed to read the details of the recorded report: %w", err)
	}
	return data, details, nil
}

func (o *options) reportOf(ctx context.Context, name string) (report.Report, error) {
	g, err := o.garden.Connect(ctx)
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

func (o *options) writeReport(made report.Report, file string) error {
	var text bytes.Buffer
	switch {
	case o.machine():
		if err := o.printer.Print(&text, document.Document{Kind: document.Report, Value: made,
			Names: []string{shootName(path.Base(made.Shoot))}}); err != nil {
			return err
		}
	case o.output == reportMarkdown:
		text.WriteString(report.Markdown(made))
	default:
		page, err := report.HTML(made)
		if err != nil {
			return err
		}
		text.WriteString(page)
	}
	return o.writeText(text.String(), file)
}

// writeText writes the text to the file, or to the standard output if none is named.
func (o *options) writeText(text, file string) error {
	if file == "" {
		_, err := io.WriteString(o.Out, text)
		return err
	}
	// #nosec G306 G703 -- To be shown around; nothing secret is in it. The user names the file.
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("failed to write the report: %w", err)
	}
	_, err := fmt.Fprintf(o.Err, "Wrote %s.\n", file)
	return err
}
