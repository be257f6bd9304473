// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command dns stands in for a cloud provider's DNS service, and for the name server that upstream's local provider
// expects at ns.local.gardener.cloud. See package server.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gardener/gardener/pkg/logger"
	"github.com/go-logr/logr"
	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/test/standins/dns/server"
)

func main() {
	log := logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := newCommand(log).ExecuteContext(ctx); err != nil {
		log.Error(err, "Failed to run the DNS server")
		os.Exit(1)
	}
}

func newCommand(log logr.Logger) *cobra.Command {
	var (
		opts    = server.Options{Log: log}
		listen  string
		address string
	)
	cmd := &cobra.Command{
		Use:           "dns",
		Short:         "Authoritative DNS server of the landscape, changed by RFC 2136 updates",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, _, err := net.SplitHostPort(listen)
			if err != nil {
				return fmt.Errorf("failed to parse --listen: %w", err)
			}
			if address == "" {
				address = host
			}
			if opts.Address, err = netip.ParseAddr(address); err != nil {
				return fmt.Errorf("failed to parse --address (default: the host of --listen): %w", err)
			}
			return run(cmd.Context(), log, listen, opts)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:5353", "host:port to serve on, UDP and TCP")
	cmd.Flags().StringVar(&address, "address", "", "IP address given out for ns.<zone>; default: the host of --listen")
	cmd.Flags().StringSliceVar(&opts.Zones, "zone", nil, "zone served with authority (repeatable)")
	cmd.Flags().StringVar(&opts.StateFile, "state-file", "", "file that keeps the records across restarts")
	cmd.Flags().StringVar(&opts.ChangeLog, "change-log", "", "file that takes one JSON line per changed record set")
	cmd.Flags().DurationVar(&opts.TTLCap, "ttl-cap", 0, "longest TTL to answer with; 0 answers as written")
	return cmd
}

func run(ctx context.Context, log logr.Logger, listen string, opts server.Options) (err error) {
	handler, err := server.New(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, handler.Close()) }()

	packets, err := net.ListenPacket("udp", listen)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	connections, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		return errors.Join(fmt.Errorf("failed to listen: %w", err), packets.Close())
	}
	servers := []*dns.Server{
		{PacketConn: packets, Handler: handler, MsgAcceptFunc: server.Accept},
		{Listener: connections, Handler: handler, MsgAcceptFunc: server.Accept, ReadTimeout: 5 * time.Second},
	}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.ActivateAndServe() }()
	}
	log.Info("Serving", "address", packets.LocalAddr().String(), "zones", opts.Zones)
	select {
	case <-ctx.Done():
		log.Info("Stopping")
	case err = <-failed:
		err = fmt.Errorf("failed to serve: %w", err)
	}
	for _, s := range servers {
		err = errors.Join(err, s.Shutdown())
	}
	return err
}
