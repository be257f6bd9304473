// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command supervisor keeps running beside the landscape and does what a cloud would do for its seeds: it gives their
// ingress gateways public addresses.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/loadbalancer"
	"github.com/livecpm/livecpm/test/landscape/network"
)

func main() {
	var (
		seeds []string
		names map[string]string
	)
	command := &cobra.Command{
		Use:           "supervisor",
		Short:         "Give the ingress gateways of the landscape's seeds their addresses",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd, seeds, names) },
	}
	command.Flags().StringArrayVar(&seeds, "seed", nil, "name,network namespace,address,kubeconfig of a seed")
	command.Flags().StringToStringVar(&names, "hostname", nil,
		"seed=host name that its gateway gets instead of its address, as some clouds have it (repeatable)")
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(cmd *cobra.Command, seeds []string, names map[string]string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := zap.New(zap.UseDevMode(false))
	var group sync.WaitGroup
	for _, seed := range seeds {
		parts := strings.SplitN(seed, ",", 4)
		if len(parts) != 4 {
			return fmt.Errorf("failed to parse seed %q: want name,network namespace,address,kubeconfig", seed)
		}
		config, err := apply.RESTConfig(parts[3])
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("failed to make client of %s: %w", parts[0], err)
		}
		controller := &loadbalancer.Controller{
			Log:           log.WithValues("seed", parts[0]),
			Client:        client,
			IP:            parts[2],
			Hostname:      names[parts[0]],
			EnsureAddress: func() error { return network.EnsureAddress(parts[1], parts[2]) },
		}
		group.Go(func() { controller.Run(ctx) })
	}
	group.Wait()
	return nil
}
