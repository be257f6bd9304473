// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// verifyFlags are what the user can choose.
type verifyFlags struct {
	source, record, baseline, dnsServer string
	partial                             bool
}

func newVerify(o *options) *cobra.Command {
	f := &verifyFlags{}
	command := &cobra.Command{
		Use:   "verify SHOOT",
		Short: "Verify after a live migration that everything is in order",
		Long: "Verify after a live migration that everything is in order: the conditions, the etcd members and the " +
			"hash of their data,\n" +
			"nothing left in the source, the secrets, DNS, and the backup entry. Most of that is in the seeds, so " +
			"give access to both\n" +
			"(--seed-access=admin, --seed-kubeconfig). Secrets are compared by digests, their content is not " +
			"printed.\n\n" +
			"Before a migration, `verify record` writes digests and cluster IDs to a file, which --baseline compares " +
			"with afterwards.\n" +
			"The exit code is 1 if a check fails or could not be made (with --partial, only if a check fails).",
		Example: example(
			"%[1]s verify record live --file live.json --seed-kubeconfig seed-a=a.yaml    # before",
			"%[1]s verify live --baseline live.json --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s verify live --partial    # only what the garden shows",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if f.record != "" {
				return o.record(command.Context(), args[0], f.record)
			}
			return o.verify(command.Context(), args[0], f)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.source, flagSource, "",
		"seed that the shoot came from (default: the one in the baseline, or the only other one with "+
			"--seed-kubeconfig)")
	flags.StringVar(&f.source, "from", "", "")
	old(command, "from", "--"+flagSource)
	flags.StringVar(&f.record, "record", "", "")
	old(command, "record", "a command: kubectl livecpm verify record SHOOT --file FILE")
	flags.StringVar(&f.baseline, "baseline", "", "file that `verify record` has written before the migration")
	flags.StringVar(&f.dnsServer, "dns-server", "",
		"address of the DNS server to ask, as in 10.0.0.1:53 (default: the system's resolver)")
	flags.BoolVar(&f.partial, "partial", false, "do not count checks that cannot be made")
	command.MarkFlagsMutuallyExclusive("record", "baseline")
	command.MarkFlagsMutuallyExclusive("from", flagSource)
	complete(command, flagSource, o.seedNames)
	completeArgument(command, o.shoots)
	o.addOutput(command)
	command.AddCommand(newVerifyRecord(o))
	return command
}

// flagSource is the flag for the seed that a shoot came from.
const flagSource = "source"

func newVerifyRecord(o *options) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "record SHOOT --file FILE",
		Short: "Record before a live migration what is to be compared with afterwards",
		Long: "Record digests of the persisted secrets and the IDs of the etcd clusters in a new file, before a live " +
			"migration. `verify`\ncompares with it afterwards (--baseline). No content of a secret is written. That " +
			"needs access to the seed, and to its secrets.",
		Example: example("%[1]s verify record live --file live.json --seed-kubeconfig seed-a=a.yaml"),
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if file == "" {
				return errors.New("give the file to write with --file")
			}
			return o.record(command.Context(), args[0], file)
		},
	}
	command.Flags().StringVar(&file, flagFile, "", "file to write; it must not exist yet")
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

// flagFile is the flag for a file to write.
const flagFile = "file"

// subject is the shoot that is verified, and what reads about it.
type subject struct {
	*surroundings
	reader inspect.VerificationReader
	shoot  *gardencorev1beta1.Shoot
	// seed is the seed that the shoot is in.
	seed string
}

// subject opens the garden and the seeds for the shoot.
func (o *options) subject(ctx context.Context, name string) (*subject, error) {
	s, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	shoot, err := s.garden.Shoot(ctx, name)
	if err == nil && ptr.Deref(shoot.Status.SeedName, "") == "" {
		err = errors.New("the shoot is not in a seed yet")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	out := &subject{surroundings: s, shoot: shoot, seed: *shoot.Status.SeedName, reader: inspect.VerificationReader{
		Garden: s.garden, Seeds: s.seeds, Members: s.members, Clock: o.clock,
		Zone: o.view().Zone}}
	s.reach(ctx, out.seed)
	return out, nil
}

func (o *options) verify(ctx context.Context, name string, f *verifyFlags) error {
	lookup, err := lookupAt(f.dnsServer, o)
	if err != nil {
		return err
	}
	s, err := o.subject(ctx, name)
	if err != nil {
		return err
	}
	defer s.close()
	s.reader.Lookup = lookup
	s.reach(ctx, f.source)
	if f.baseline != "" {
		baseline, err := inspect.ReadBaseline(f.baseline, s.shoot.Namespace, s.shoot.Name)
		if err != nil {
			return err
		}
		s.reader.Baseline = &baseline
		s.reach(ctx, baseline.Seed)
	}
	source := f.source
	if source == "" {
		source = s.reader.Source(s.seed)
	}
	result := inspect.Verify(s.reader.Read(ctx, s.shoot, source))
	answer := document.Document{Kind: document.Verification, Value: result, Names: namesOf(result.Checks, checkName)}
	if err := o.print(answer, func() string { return result.Text(o.view()) }); err != nil {
		return err
	}
	return exit.Answer(result.Failed == 0 && (result.Unknown == 0 || f.partial)).Err()
}

// record writes what is to be compared with after a migration to the file.
func (o *options) record(ctx context.Context, name, file string) error {
	s, err := o.subject(ctx, name)
	if err != nil {
		return err
	}
	defer s.close()
	baseline, err := s.reader.Record(ctx, s.shoot)
	if err != nil {
		return err
	}
	if err := baseline.Write(file); err != nil {
		return err
	}
	answer := document.Document{Kind: document.Baseline, Value: baseline, Names: []string{file}}
	return o.print(answer, func() string {
		return fmt.Sprintf("Recorded digests of %s and the IDs of %s in %s.\nNext: kubectl livecpm verify %s -n %s "+
			"--baseline %s, after the migration\n", conditions.Count(len(baseline.Secrets), "secret"),
			conditions.Count(len(baseline.ClusterIDs), "etcd cluster"), file, name, s.shoot.Namespace, file)
	})
}

// lookupAt returns a lookup at the DNS server, or by the system's resolver if none is given.
func lookupAt(server string, o *options) (func(context.Context, string) ([]netip.Addr, error), error) {
	if server == "" {
		return func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}, nil
	}
	if _, _, err := net.SplitHostPort(server); err != nil {
		return nil, fmt.Errorf("--dns-server is %q; give address and port, as in 10.0.0.1:53", server)
	}
	resolver := probe.NewResolver(server, o.clock)
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		addresses, _, err := resolver.Lookup(ctx, host)
		return addresses, err
	}, nil
}
