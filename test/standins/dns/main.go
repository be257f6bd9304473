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
	"strings"
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
		others  []string
		hosts   map[string]string
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
			opts.Hosts = map[string]netip.Addr{}
			for name, text := range hosts {
				if opts.Hosts[name], err = netip.ParseAddr(text); err != nil {
					return fmt.Errorf("failed to parse --host %s: %w", name, err)
				}
			}
			for _, text := range others {
				other, err := parseReplica(text)
				if err != nil {
					return err
				}
				opts.Replicas = append(opts.Replicas, other)
			}
			return run(cmd.Context(), log, listen, opts)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:5353", "host:port to serve on, UDP and TCP")
	cmd.Flags().StringVar(&address, "address", "", "IP address given out for ns.<zone>; default: the host of --listen")
	cmd.Flags().StringSliceVar(&opts.Zones, "zone", nil, "zone served with authority (repeatable)")
	cmd.Flags().StringVar(&opts.StateFile, "state-file", "", "file that keeps the records across restarts")
	cmd.Flags().StringVar(&opts.ChangeLog, "change-log", "", "file that takes one JSON line per changed record set")
	cmd.Flags().BoolVar(&opts.Aliases, "aliases", false,
		"answer for a CNAME into a served zone with the addresses of its target, as Route 53 does")
	cmd.Flags().StringToStringVar(&hosts, "host", nil, "name=address of a load balancer (repeatable)")
	cmd.Flags().StringArrayVar(&others, "replica", nil, "address,lag,silence of another name server, at the port of "+
		"--listen: how much later it knows of a change, and for how long after each change it answers nothing "+
		"(repeatable)")
	cmd.Flags().DurationVar(&opts.TTLCap, "ttl-cap", 0, "longest TTL to answer with; 0 answers as written")
	return cmd
}

// parseReplica reads a value of --replica.
func parseReplica(text string) (server.Replica, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return server.Replica{}, fmt.Errorf("failed to parse --replica %q: want address,lag,silence", text)
	}
	var (
		out  server.Replica
		errs [3]error
	)
	out.Address, errs[0] = netip.ParseAddr(parts[0])
	out.Lag, errs[1] = time.ParseDuration(parts[1])
	out.Silence, errs[2] = time.ParseDuration(parts[2])
	if err := errors.Join(errs[:]...); err != nil {
		return server.Replica{}, fmt.Errorf("failed to parse --replica %q: %w", text, err)
	}
	return out, nil
}

func run(ctx context.Context, log logr.Logger, listen string, opts server.Options) (err error) {
	handler, err := server.New(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, handler.Close()) }()

	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("failed to parse --listen: %w", err)
	}
	servers, err := serversAt(listen, handler)
	for i, replica := range opts.Replicas {
		var more []*dns.Server
		if err == nil {
			more, err = serversAt(net.JoinHostPort(replica.Address.String(), port), handler.ReplicaHandler(i))
		}
		servers = append(servers, more...)
	}
	if err != nil {
		return err // the sockets end with the program
	}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.ActivateAndServe() }()
	}
	log.Info("Serving", "address", listen, "replicas", len(opts.Replicas), "zones", opts.Zones)
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

// serversAt returns the servers of one address, for UDP and TCP.
func serversAt(address string, handler dns.Handler) ([]*dns.Server, error) {
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, fmt.Errorf("failed to listen: %w", err)
	}
	connections, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("failed to listen: %w", err), packets.Close())
	}
	return []*dns.Server{
		{PacketConn: packets, Handler: handler, MsgAcceptFunc: server.Accept},
		{Listener: connections, Handler: handler, MsgAcceptFunc: server.Accept, ReadTimeout: 5 * time.Second},
	}, nil
}
