// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command vpn stands in for the two programs of github.com/gardener/vpn2, vpn-server in the seed and vpn-client in the
// shoot, of which neither image nor module is available. They prepare the pod and write the configuration of OpenVPN,
// which is Debian's and does the rest (see package openvpn). Only the VPN without high availability is stood in for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/logger"
	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"

	"github.com/livecpm/livecpm/test/standins/iptables"
	"github.com/livecpm/livecpm/test/standins/vpn/openvpn"
)

func main() {
	log := logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON)
	if err := run(context.Background(), log, os.Args); err != nil {
		log.Error(err, "Failed")
		os.Exit(1)
	}
}

func run(_ context.Context, log logr.Logger, args []string) error {
	program, command := filepath.Base(args[0]), ""
	if len(args) > 1 {
		command = args[1]
	}
	switch program + " " + command {
	case "vpn-server setup":
		return enableIPv6()
	case "vpn-server ":
		return configureServer(log)
	case "vpn-server firewall":
		return firewall(args[2:])
	case "vpn-server liveness":
		return probe(func(status *openvpn.Status) error { return status.Alive(time.Now().UTC()) })
	case "vpn-server readiness":
		return probe((*openvpn.Status).Ready)
	case "vpn-client setup":
		return tuneKernel()
	case "vpn-client ":
		return configureClient(log)
	}
	return fmt.Errorf("unknown command %q of %q", command, program)
}

func configureServer(log logr.Logger) error {
	settings, err := openvpn.ServerSettings(os.Getenv)
	if err != nil {
		return err
	}
	v4, _, err := iptables.Find()
	if err != nil {
		return err
	}
	rules, err := settings.ServerRules()
	if err != nil {
		return err
	}
	if err := addOnce(v4, rules); err != nil {
		return err
	}
	mtu, err := tunnelMTU(settings)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(openvpn.ClientFolder, 0o750); err != nil {
		return fmt.Errorf("failed to make folder: %w", err)
	}
	log.Info("Configuring OpenVPN", "networks", settings.InTunnel(), "mtu", mtu)
	return errors.Join(write(openvpn.ServerFile, settings.ServerConfig(mtu)),
		write(filepath.Join(openvpn.ClientFolder, openvpn.ShootClient), settings.RoutesToClient()))
}

func configureClient(log logr.Logger) error {
	settings, err := openvpn.ClientSettings(os.Getenv)
	if err != nil {
		return err
	}
	v4, v6, err := iptables.Find()
	if err != nil {
		return err
	}
	for _, family := range settings.Families {
		rules, err := settings.ClientRules(family)
		if err != nil {
			return err
		}
		if err := addOnce(map[string]iptables.Tables{"IPv4": v4, "IPv6": v6}[family], rules); err != nil {
			return err
		}
	}
	mtu, err := tunnelMTU(settings)
	if err != nil {
		return err
	}
	if err := releaseAddresses(); err != nil {
		return err
	}
	log.Info("Configuring OpenVPN", "gateway", settings.Endpoint, "destination", settings.Header, "mtu", mtu)
	return write(openvpn.ClientFile, settings.ClientConfig(mtu))
}

func addOnce(tables iptables.Tables, rules []openvpn.Rule) error {
	for _, rule := range rules {
		if err := tables.AppendOnce(rule.Table, rule.Chain, rule.Spec...); err != nil {
			return err
		}
	}
	return nil
}

func write(file, content string) error {
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return fmt.Errorf("failed to write configuration: %w", err)
	}
	return nil
}

func probe(judge func(*openvpn.Status) error) error {
	settings, err := openvpn.ServerSettings(os.Getenv)
	if err != nil {
		return err
	}
	status, err := openvpn.ReadStatus(settings.StatusFile)
	if err != nil {
		return err
	}
	return judge(status)
}

// firewall is what OpenVPN runs at the server when it has made its device or is about to end.
func firewall(args []string) error {
	flags := flag.NewFlagSet("firewall", flag.ContinueOnError)
	device := flags.String("device", "", "the device of the tunnel")
	mode := flags.String("mode", "", "up or down")
	networks := flags.String("shoot-network", "", "networks that are behind the tunnel")
	seedPods := flags.String("seed-pod-network", "", "network of the seed's pods")
	// OpenVPN adds words of its own, which come last and are not flags.
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("failed to read flags: %w", err)
	}
	v4, v6, err := iptables.Find()
	if err != nil {
		return err
	}
	change := iptables.Tables.Append
	switch *mode {
	case "up":
	case "down":
		change = iptables.Tables.Delete
	default:
		return fmt.Errorf("mode is %q, and has to be up or down", *mode)
	}
	for _, rule := range openvpn.FirewallRules(*device) {
		if err := errors.Join(change(v4, rule.Table, rule.Chain, rule.Spec...),
			change(v6, rule.Table, rule.Chain, rule.Spec...)); err != nil {
			return err
		}
	}
	// A network that is not one has no rules, as when the device goes down: they are left.
	seed, _ := netip.ParsePrefix(*seedPods)
	for _, rule := range openvpn.SeedRules(*device, seed) {
		if err := change(v4, rule.Table, rule.Chain, rule.Spec...); err != nil {
			return err
		}
	}
	if *mode == "down" || *networks == "" {
		return nil
	}
	return routeTo(*device, strings.Split(*networks, ","))
}

func routeTo(device string, networks []string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("failed to find interface %s: %w", device, err)
	}
	for _, network := range networks {
		destination, err := netlink.ParseIPNet(network)
		if err != nil {
			return fmt.Errorf("failed to read network: %w", err)
		}
		if err := netlink.RouteReplace(&netlink.Route{Dst: destination, LinkIndex: link.Attrs().Index}); err != nil {
			return fmt.Errorf("failed to add a route to %s: %w", network, err)
		}
	}
	return nil
}
