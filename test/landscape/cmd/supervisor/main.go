// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command supervisor keeps running beside the landscape, in the hub's network namespace, and does what a cloud does for
// its seeds: it is the load balancers in front of their ingress gateways.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/test/landscape/apply"
	landscape "github.com/livecpm/livecpm/test/landscape/loadbalancer"
	"github.com/livecpm/livecpm/test/landscape/network"
	"github.com/livecpm/livecpm/test/standins/loadbalancer"
)

type options struct {
	hub     string
	seeds   []string
	clients map[string]string
	// hostnames are what gateways are known by instead of their addresses, by seed.
	hostnames map[string]string
	admin     string
}

func main() {
	var opts options
	command := &cobra.Command{
		Use:           "supervisor",
		Short:         "Be the load balancers in front of the ingress gateways of the landscape's seeds",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	flags := command.Flags()
	flags.StringVar(&opts.hub, "hub", "", "network namespace that gets the public addresses: the one this runs in")
	flags.StringArrayVar(&opts.seeds, "seed", nil, "name,public address,kubeconfig of a seed")
	flags.StringToStringVar(&opts.clients, "client", nil, "name=address of others who may open connections")
	flags.StringToStringVar(&opts.hostnames, "hostname", nil,
		"seed=host name that its gateway gets instead of its address, as some clouds have it (repeatable)")
	flags.StringVar(&opts.admin, "admin", "", "address of status and faults")
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// seed is a parsed --seed.
type seed struct {
	name       string
	address    netip.Addr
	kubeconfig string
}

func parseSeeds(values []string) (seeds []seed, names []string, err error) {
	for _, value := range values {
		parts := strings.SplitN(value, ",", 3)
		if len(parts) != 3 {
			return nil, nil, fmt.Errorf("failed to parse seed %q: want name,public address,kubeconfig", value)
		}
		address, err := netip.ParseAddr(parts[1])
		if err != nil {
			return nil, nil, fmt.Errorf("failed to parse seed %q: %w", value, err)
		}
		seeds = append(seeds, seed{name: parts[0], address: address, kubeconfig: parts[2]})
		names = append(names, parts[0])
	}
	return seeds, names, nil
}

func run(ctx context.Context, opts options) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := zap.New(zap.UseDevMode(false))
	seeds, names, err := parseSeeds(opts.seeds)
	if err != nil {
		return err
	}
	who := loadbalancer.NewWho()
	for name, value := range opts.clients {
		address, err := netip.ParseAddr(value)
		if err != nil {
			return fmt.Errorf("failed to parse client %s: %w", name, err)
		}
		who.Set(name, address)
	}
	for _, name := range names {
		who.Set(name) // its nodes follow
	}
	faults := loadbalancer.NewFaults(who, names...)
	group, ctx := errgroup.WithContext(ctx)
	var fronts []*loadbalancer.Front
	for _, seed := range seeds {
		log := log.WithValues("seed", seed.name)
		front := loadbalancer.NewFront(log, seed.name, seed.address, faults)
		fronts = append(fronts, front)
		config, err := apply.RESTConfig(seed.kubeconfig)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("failed to make client of %s: %w", seed.name, err)
		}
		controller := &landscape.Controller{
			Log:           log,
			Client:        client,
			Service:       landscape.Gateway,
			Address:       seed.address,
			Hostname:      opts.hostnames[seed.name],
			Front:         front,
			EnsureAddress: func() error { return network.EnsurePublicAddress(opts.hub, seed.address.String()) },
			Nodes: func(addresses []netip.Addr) {
				if who.Set(seed.name, addresses...) {
					faults.Refresh()
				}
			},
		}
		group.Go(func() error { front.Run(ctx); return nil })
		group.Go(func() error { return controller.Run(ctx) })
	}
	group.Go(func() error { return serve(ctx, opts.admin, loadbalancer.AdminHandler(log, faults, fronts...)) })
	return group.Wait()
}

func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve status and faults: %w", err)
	}
	return nil
}
