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

	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// verifyFlags are what the user can choose.
type verifyFlags struct {
	from, record, baseline, dnsServer string
	partial                           bool
}

func newVerify(o *options) *cobra.Command {
	f := &verifyFlags{}
	command := &cobra.Command{
		Use:   "verify SHOOT",
		Short: "Verify after a live migration that everything is in order",
		Long: "Verify after a live migration that everything is in order: the conditions, the etcd members and the " +
			"hash of their data,\n" +
			"nothing left in the source, the secrets, DNS, and the backup entry. Most of that is in the seeds, so " +
			"give --seed-kubeconfig for\n" +
			"both. Secrets are compared by digests, their content is not printed.\n\n" +
			"With --record, before a migration, digests and cluster IDs are written to a file, which --baseline " +
			"compares with afterwards.\n" +
			"The exit code is 1 if a check fails or could not be made (with --partial, only if a check fails).",
		Example: example(
			"%[1]s verify live --record live.json --seed-kubeconfig seed-a=a.yaml    # before",
			"%[1]s verify live --baseline live.json --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s verify live --partial    # only what the garden shows",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.checkOutput(); err != nil {
				return err
			}
			return o.verify(command.Context(), args[0], f)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.from, "from", "",
		"seed that the shoot came from (default: the one in the baseline, or the only other one with "+
			"--seed-kubeconfig)")
	flags.StringVar(&f.record, "record", "", "file to write for a later --baseline; nothing is verified")
	flags.StringVar(&f.baseline, "baseline", "", "file that was written with --record before the migration")
	flags.StringVar(&f.dnsServer, "dns-server", "",
		"address of the DNS server to ask, as in 10.0.0.1:53 (default: the system's resolver)")
	flags.BoolVar(&f.partial, "partial", false, "do not count checks that cannot be made")
	command.MarkFlagsMutuallyExclusive("record", "baseline")
	complete(command, "from", o.seedNames)
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

func (o *options) verify(ctx context.Context, name string, f *verifyFlags) error {
	lookup, err := lookupAt(f.dnsServer, o)
	if err != nil {
		return err
	}
	s, err := o.open()
	if err != nil {
		return err
	}
	defer s.close()
	shoot, err := s.garden.Shoot(ctx, name)
	if err != nil {
		return err
	}
	destination := ptr.Deref(shoot.Status.SeedName, "")
	if destination == "" {
		return errors.New("the shoot is not in a seed yet")
	}
	reader := inspect.VerificationReader{
		Garden: s.garden, Seeds: s.seeds, Members: s.members, Lookup: lookup, Clock: o.clock,
	}
	if f.record != "" {
		return o.recordBaseline(ctx, reader, shoot, f.record)
	}
	if f.baseline != "" {
		baseline, err := inspect.ReadBaseline(f.baseline, shoot.Namespace, shoot.Name)
		if err != nil {
			return err
		}
		reader.Baseline = &baseline
	}
	source := f.from
	if source == "" {
		source = reader.Source(destination)
	}
	result := inspect.Verify(reader.Read(ctx, shoot, source))
	if err := o.print(result, func() string { return result.Text(o.view()) }); err != nil {
		return err
	}
	if result.Failed > 0 || (result.Unknown > 0 && !f.partial) {
		return &view.ExitError{Code: view.ExitFailed}
	}
	return nil
}

// recordBaseline writes what is to be compared with after a migration to the file.
func (o *options) recordBaseline(
	ctx context.Context, reader inspect.VerificationReader, shoot *gardencorev1beta1.Shoot, file string,
) error {
	baseline, err := reader.Record(ctx, shoot)
	if err != nil {
		return err
	}
	if err := baseline.Write(file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out,
		"Recorded digests of %d secrets and the IDs of %d etcd clusters in %s.\nNext: kubectl livecpm verify %s "+
			"-n %s --baseline %s, after the migration\n",
		len(baseline.Secrets), len(baseline.ClusterIDs), file, shoot.Name, shoot.Namespace, file)
	return err
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
