// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// looks is how often all name servers are asked before they count as moved. A name server may be several machines
// behind one address, which take up a change one after the other, and load balancers give some of their addresses in
// each answer.
const looks = 3

// Target is what names are to lead to: an address, or the host name of a load balancer.
type Target struct {
	servers NameServers
	name    string
	address bool
	// seen are the addresses that a host name has been seen with so far. A load balancer does not give all of them in
	// each answer.
	seen map[string]bool
}

// NewTarget returns the target with the given IP address or host name.
func NewTarget(servers NameServers, target string) *Target {
	_, err := netip.ParseAddr(target)
	return &Target{servers: servers, name: strings.TrimSuffix(target, "."), address: err == nil,
		seen: map[string]bool{}}
}

// Reached returns nil if every name server that is responsible for the name leads clients to the target and nowhere
// else, in several answers each. Otherwise the error names what leads elsewhere, and what could not be asked.
//
// For the host name of a load balancer, providers keep one of two things: a CNAME, or an alias, which their name
// servers answer with the addresses that the host name has at the moment (as Route 53 does). Both lead there.
func (t *Target) Reached(ctx context.Context, name string) error {
	for range looks {
		if err := t.look(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) look(ctx context.Context, name string) error {
	told, err := t.ask(ctx, name)
	if err != nil {
		return err
	}
	if !t.address {
		// It is asked after the name has been, so that an address that has just come up is known.
		own, err := t.ask(ctx, t.name)
		if err != nil {
			return err
		}
		for _, answer := range own {
			for _, address := range answer.addresses {
				t.seen[address] = true
			}
		}
	}
	if len(told) == 0 {
		return errors.New("no name server was asked")
	}
	for _, server := range slices.Sorted(maps.Keys(told)) {
		if err := t.judge(told[server]); err != nil {
			return fmt.Errorf("name server %s %w", server, err)
		}
	}
	return nil
}

// told is what one name server says about a name.
type told struct {
	aliases, addresses []string
}

// ask returns what each name server says about the name, by its address.
func (t *Target) ask(ctx context.Context, name string) (map[string]told, error) {
	all := map[string]told{}
	for _, recordType := range []uint16{dns.TypeCNAME, dns.TypeA, dns.TypeAAAA} {
		answers, err := t.servers.Ask(ctx, name, dns.TypeToString[recordType])
		if err != nil {
			return nil, err
		}
		for _, answer := range answers {
			of := all[answer.Server]
			if recordType == dns.TypeCNAME {
				of.aliases = answer.Values
			} else {
				of.addresses = append(of.addresses, answer.Values...)
			}
			all[answer.Server] = of
		}
	}
	return all, nil
}

// judge returns nil if what a name server says leads to the target.
func (t *Target) judge(what told) error {
	if t.address {
		// An address of the other family would lead elsewhere, too.
		if !slices.Equal(what.addresses, []string{t.name}) {
			return fmt.Errorf("answers %v instead of [%s]", what.addresses, t.name)
		}
		return nil
	}
	if len(what.aliases) > 0 {
		if len(what.aliases) != 1 || !strings.EqualFold(what.aliases[0], t.name) {
			return fmt.Errorf("answers %v instead of [%s]", what.aliases, t.name)
		}
		return nil
	}
	if len(what.addresses) == 0 {
		return fmt.Errorf("answers neither with %s nor with an address", t.name)
	}
	for _, address := range what.addresses {
		if !t.seen[address] {
			return fmt.Errorf("answers %v, and %s has %v", what.addresses, t.name,
				slices.Sorted(maps.Keys(t.seen)))
		}
	}
	return nil
}
