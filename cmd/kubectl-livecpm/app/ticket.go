// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/ticket"
)

// ticketFlags are what the user can choose about the report for a change ticket.
type ticketFlags struct {
	ticket                    bool
	baseline, probed, signKey string
}

func (f *ticketFlags) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&f.ticket, "ticket", false,
		"write the report for a change ticket: one file with the facts, and a digest or a signature over them")
	flags.StringVar(&f.baseline, "baseline", "",
		"with --ticket: file that was written with verify record before the migration, for the members before")
	flags.StringVar(&f.probed, "probe-result", "",
		"with --ticket: output of probe -o json that ran beside the migration, for what clients noticed")
	flags.StringVar(&f.signKey, "sign-key", "",
		"with --ticket: file with the private Ed25519 key to sign with, as openssl genpkey -algorithm ed25519 "+
			"writes it")
}

// reportPDF is the format that only the report for a change ticket has.
const reportPDF = string(ticket.PDF)

// check refuses flags that say nothing together.
func (f *reportFlags) check() error {
	for flag, value := range map[string]string{"--baseline": f.baseline, "--probe-result": f.probed,
		"--sign-key": f.signKey} {
		switch {
		case value != "" && !f.ticket:
			return fmt.Errorf("%s is for --ticket", flag)
		case value != "" && f.recording != "" && flag != "--sign-key":
			return fmt.Errorf("a recording has what %s would add: give either --recording or %s", flag, flag)
		}
	}
	return nil
}

// writeTicket writes the report for a change ticket, of the shoot or of the recording.
func (o *options) writeTicket(ctx context.Context, name string, f *reportFlags) error {
	var (
		facts ticket.Facts
		err   error
	)
	if f.recording != "" {
		facts, err = o.recordedFacts(f.recording)
	} else {
		facts, err = o.facts(ctx, name, &f.ticketFlags)
	}
	if err != nil {
		return err
	}
	content, err := facts.Canonical()
	if err != nil {
		return err
	}
	seal := ticket.Digest(content)
	if f.signKey != "" {
		key, err := os.ReadFile(f.signKey)
		if err != nil {
			return fmt.Errorf("failed to read --sign-key: %w", err)
		}
		if seal, err = ticket.Sign(content, key); err != nil {
			return fmt.Errorf("failed to sign with --sign-key %s: %w", f.signKey, err)
		}
	}
	text, err := o.ticketText(facts, seal)
	if err != nil {
		return err
	}
	if len(facts.Unknown) > 0 {
		_, _ = fmt.Fprintf(o.Err, "Not known, and said so in the report: %s.\n", unknownWords(facts))
	}
	return o.writeText(text, f.file)
}

// ticketText returns the report in the format that was chosen. A name, or what a template takes out of it, is no file
// that could be verified.
func (o *options) ticketText(facts ticket.Facts, seal ticket.Seal) (string, error) {
	format := ticket.Format(o.output)
	if !o.machine() || format == ticket.JSON || format == ticket.YAML {
		return ticket.Write(facts, seal, format)
	}
	whole, err := ticket.Write(facts, seal, ticket.JSON)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = o.printer.Print(&out, document.Document{Kind: document.Ticket, Value: json.RawMessage(whole),
		Names: []string{shootName(facts.Shoot.Name)}})
	return out.String(), err
}

func unknownWords(facts ticket.Facts) string {
	var out []string
	for _, unknown := range facts.Unknown {
		out = append(out, unknown.What)
	}
	return strings.Join(out, "; ")
}

func (o *options) recordedFacts(from string) (ticket.Facts, error) {
	data, details, err := readRecording(from)
	if err != nil {
		return ticket.Facts{}, err
	}
	program := pluginVersion()
	return ticket.FromRecording(data, details, ticket.New(o.clock.Now(), program.Release, program.Gardener))
}

// facts collects the facts about the last migration of the shoot.
func (o *options) facts(ctx context.Context, name string, f *ticketFlags) (ticket.Facts, error) {
	s, err := o.open(ctx)
	if err != nil {
		return ticket.Facts{}, err
	}
	defer s.close()
	shoot, err := s.garden.Shoot(ctx, name)
	if err != nil {
		return ticket.Facts{}, err
	}
	reader := inspect.TicketReader{Garden: s.garden, Seeds: s.seeds, Members: s.members, Plugin: pluginVersion(),
		Clock: o.clock}
	if f.baseline != "" {
		baseline, err := inspect.ReadBaseline(f.baseline, shoot.Namespace, shoot.Name)
		if err != nil {
			return ticket.Facts{}, err
		}
		reader.Baseline = &baseline
	}
	if f.probed != "" {
		if reader.Probe, err = os.ReadFile(f.probed); err != nil {
			return ticket.Facts{}, fmt.Errorf("failed to read --probe-result: %w", err)
		}
	}
	migration := summary.Summarize(shoot, o.clock.Now())
	s.reach(ctx, migration.Source, migration.Destination)
	return reader.Read(ctx, shoot)
}

// newReportVerify returns the command that verifies a report for a change ticket.
func newReportVerify(o *options) *cobra.Command {
	var (
		key   string
		facts bool
	)
	command := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a report for a change ticket",
		Long: "Verify a file that `report --ticket` has written: that its facts have the digest that it names, that " +
			"what people read in it\n" +
			"is what the facts say, and with --key that they were signed with that key. A digest alone reports " +
			"whether the file was damaged,\n" +
			"and not who has written it. No garden is asked.\n\n" +
			"The exit code is 1 if the file is not as it was written, or not signed with the key, 2 if that could\n" +
			"not be found out.",
		Example: example(
			"%[1]s report verify live.html",
			"%[1]s report verify live.html --key operations.pub.pem",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("failed to read the report: %w", err)
			}
			var public ed25519.PublicKey
			if key != "" {
				if public, err = publicKey(key); err != nil {
					return err
				}
			}
			verified, err := ticket.Verify(file, public, pluginVersion().Release)
			if err != nil {
				return exit.With(exit.No, err)
			}
			answer := document.Document{Kind: document.TicketVerification, Value: verified,
				Names: []string{shootName(verified.Facts.Shoot.Name)}}
			if err := o.print(answer, func() string { return verifiedText(verified, facts, o.view()) }); err != nil {
				return err
			}
			return exit.Answer(verified.Text == "" || facts).Err()
		},
	}
	flags := command.Flags()
	flags.StringVar(&key, "key", "", "file with the public Ed25519 key, as openssl pkey -pubout writes it; without a "+
		"signature by this key the answer is no")
	flags.BoolVar(&facts, "facts-only", false, "do not compare what people read in the file; read what is printed here")
	command.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	o.addOutput(command)
	return command
}

// publicKey reads the key to verify with. That it cannot be read is no answer about the report.
func publicKey(path string) (ed25519.PublicKey, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the user says which.
	if err != nil {
		return nil, fmt.Errorf("failed to read --key: %w", err)
	}
	public, err := ticket.PublicKey(content)
	if err != nil {
		return nil, fmt.Errorf("failed to verify with --key %s: %w", path, err)
	}
	return public, nil
}

// verifiedText says what a verification has found.
func verifiedText(v ticket.Verified, factsOnly bool, o view.Options) string {
	rows := [][]string{
		{"shoot", v.Facts.Shoot.Namespace + "/" + v.Facts.Shoot.Name},
		{"seeds", v.Facts.Source + " -> " + v.Facts.Destination},
		{"result", v.Facts.Result},
		{"collected", o.Date(v.Facts.Made) + " by kubectl livecpm " + v.Facts.MadeBy},
		{"sha256", v.Seal.SHA256},
	}
	signature := "none"
	switch {
	case v.Signed:
		signature = "by the given key"
	case v.Seal.Signature != "":
		signature = "not checked: give the public key with --key; it names the key " + v.Seal.Key
	}
	rows = append(rows, []string{"signature", signature})
	out := view.Table([]string{"FACTS", ""}, rows) + "\n"
	switch {
	case factsOnly:
		return out + "The facts are as they were written. What people read in the file was not compared.\n"
	case v.Text != "":
		return out + "The facts are as they were written. NOT VERIFIED: " + v.Text + ".\n"
	}
	return out + "The file is as it was written.\n"
}

// user returns who starts a migration, to be named in reports; nothing if the garden does not tell.
func (o *options) user(ctx context.Context, g *access.Garden) string {
	name, err := g.User(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(o.Err, "Reports will not name who has started the migration: %v\n", err)
	}
	return name
}
