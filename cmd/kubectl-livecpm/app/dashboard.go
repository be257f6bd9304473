// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/dashboard"
	"github.com/livecpm/livecpm/pkg/cli/steer"
)

// loopback is where the dashboard listens unless somebody wants it elsewhere.
const loopback = "127.0.0.1"

func newDashboard(o *options) *cobra.Command {
	var (
		address string
		port    uint16
	)
	command := &cobra.Command{
		Use:   "dashboard SHOOT",
		Short: "Show a live migration as a page that follows it",
		Long: "Serve a page to the browsers of this machine that shows a live migration and follows it: the steps " +
			"and the reasons at which\n" +
			"they stood, etcd members, events, what a probe on this machine measures, and the commands that the " +
			"present state permits,\n" +
			"to be copied. The page changes nothing and loads nothing from anywhere else. It reads with your " +
			"permissions, so everybody\n" +
			"who reaches its address sees what you may see of this shoot; it listens on " + loopback + " only, " +
			"unless --address says otherwise.\n\n" +
			"It runs until Ctrl-C. What it has seen is gone then; `report` and `history` know what is kept.",
		Example: example(
			"%[1]s dashboard live",
			"%[1]s dashboard live --port 8080 --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if net.ParseIP(address) == nil {
				return fmt.Errorf("--address is %q; give an IP address of this machine", address)
			}
			s, err := o.open(command.Context())
			if err != nil {
				return err
			}
			defer s.close()
			ctx := command.Context()
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp",
				net.JoinHostPort(address, strconv.Itoa(int(port))))
			if err != nil {
				return fmt.Errorf("failed to listen on --address %s, --port %d: %w", address, port, err)
			}
			server := &dashboard.Server{Read: s.lookForDashboard(args[0]), Clock: o.clock, Interval: o.interval,
				Zone: o.view().Zone, Flags: gardenFlags(command.Flags()), Ready: func() {
					_, _ = fmt.Fprintf(o.Out, "http://%s\n", listener.Addr())
					_, _ = fmt.Fprintln(o.Err, "Open this address in a browser. Ctrl-C ends the dashboard.")
				}}
			return interrupted(server.Serve(ctx, listener))
		},
	}
	command.Flags().StringVar(&address, "address", loopback,
		"IP address to listen on; everybody who reaches it sees the page")
	command.Flags().Uint16Var(&port, "port", 0, "port to listen on (default: a free one)")
	completeArgument(command, o.shoots)
	return command
}

// gardenFlags returns the flags by which the user has named a garden, so that commands of the page lead to the same
// one.
func gardenFlags(flags *pflag.FlagSet) []string {
	var out []string
	for _, name := range []string{clientcmd.RecommendedConfigPathFlag, clientcmd.FlagContext, clientcmd.FlagClusterName,
		clientcmd.FlagAuthInfoName} {
		if flag := flags.Lookup(name); flag != nil && flag.Changed {
			out = append(out, "--"+name+"="+flag.Value.String())
		}
	}
	return out
}

// lookForDashboard looks at everything that the page shows. What cannot be looked at is said on it.
func (s *surroundings) lookForDashboard(name string) func(context.Context) (dashboard.Look, error) {
	lookAtAll := s.lookAtAll(name)
	return func(ctx context.Context) (dashboard.Look, error) {
		controlPlane, err := lookAtAll(ctx)
		if err != nil {
			return dashboard.Look{}, err
		}
		out := dashboard.Look{ControlPlane: controlPlane}
		events := &corev1.EventList{}
		selector := fields.SelectorFromSet(fields.Set{"involvedObject.kind": "Shoot", "involvedObject.name": name})
		if err := s.garden.Client.List(ctx, events, client.InNamespace(controlPlane.Shoot.Namespace),
			client.MatchingFieldsSelector{Selector: selector}); err != nil {
			out.Missing = append(out.Missing, fmt.Sprintf("the events of the Shoot: %v", err))
		}
		out.Events = events.Items
		if controlPlane.Probe != nil {
			if store, err := steer.DefaultCountsStore(); err == nil {
				out.Series = store.ReadSeries(steer.CountsKey(s.garden.Host, controlPlane.Shoot))
			}
		}
		return out, nil
	}
}
