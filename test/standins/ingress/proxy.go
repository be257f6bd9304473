// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

const (
	// envNamespace is the variable with the pod's namespace, labelsFile the file with its labels: by these Istio's
	// proxy knows who it is.
	envNamespace = "POD_NAMESPACE"
	labelsFile   = "/etc/istio/pod/labels"
)

// newProxyCommand takes the command line of Istio's proxy, so that the pods that Gardener's chart makes for that can
// run this program. Its flags are about istiod and about logs, and mean nothing here.
func newProxyCommand(log logr.Logger) *cobra.Command {
	proxy := &cobra.Command{Use: "proxy", Short: "Be Istio's proxy", Args: cobra.NoArgs}
	proxy.AddCommand(&cobra.Command{
		Use:                "router",
		Short:              "Be the proxy of an ingress gateway: namespace and labels are those of the pod",
		Args:               cobra.NoArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			labels, err := gateway.ReadLabels(labelsFile)
			if err != nil {
				return err
			}
			return run(cmd.Context(), log, options{
				identity: gateway.Identity{Namespace: os.Getenv(envNamespace), Labels: labels,
					Port: defaultGatewayPort},
				listen:  defaultListen,
				connect: defaultConnect,
				admin:   defaultAdmin,
				drain:   defaultDrain,
			})
		},
	})
	return proxy
}
