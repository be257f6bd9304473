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
	"sync"
	"time"

	"github.com/miekg/dns"
)

// looks is how often all name servers are asked before they count as moved. A name server may be several machines
// behind one address, which take up a change one after the other, and load balancers give some of their addresses in
// each answer.
const looks = 3

// Target is what names are to lead to: an address, or the host name of a load balancer.
type Target struct {
	servers NameServers
	silence *Silence
	name    string
	address bool
	// seen are the addresses that a host name has been seen with so far. A load balancer does not give all of them in
	// each answer.
	seen map[string]bool
}

// NewTarget returns the target with the given IP address or host name. The silence says how long name servers are
// waited for that do not answer.
func NewTarget(servers NameServers, silence *Silence, target string) *Target {
	_, err := netip.ParseAddr(target)
	return &Target{servers: servers, silence: silence, name: strings.TrimSuffix(target, "."), address: err == nil,
		seen: map[string]bool{}}
}

// Reached returns nil if every name server that is responsible for the name leads clients to the target and nowhere
// else, in several answers each. Otherwise the error names what leads elsewhere, and what could not be asked. A name
// server that does not answer is waited for while all others lead there, and no longer than the silence is borne.
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
	said, err := ask(ctx, t.servers, name)
	if err != nil {
		return err
	}
	// It is asked after the name has been, so that an address that has just come up is known.
	if err := t.askOwn(ctx); err != nil {
		return err
	}
	if len(said) == 0 {
		return errors.New("no name server was asked")
	}
	for _, server := range slices.Sorted(maps.Keys(said)) {
		if said[server].nothing() {
			continue
		}
		if err := t.judge(said[server]); err != nil {
			// What lags behind others may be what does not answer.
			t.silence.Begin()
			return fmt.Errorf("name server %s %w", server, err)
		}
	}
	return t.silence.Bear(said.silent())
}

// askOwn asks for the addresses of the target's host name. A name server that does not tell them is no problem: an
// address that nobody tells is not taken for one of the target.
func (t *Target) askOwn(ctx context.Context) error {
	if t.address {
		return nil
	}
	own, err := ask(ctx, t.servers, t.name)
	if err != nil {
		return err
	}
	for _, said := range own {
		for _, address := range said.addresses {
			t.seen[address] = true
		}
	}
	return nil
}

// TTL returns for how long caches may keep what the name servers say about the name: the longest of what those say that
// answer. It fails as long as others are to be waited for.
func TTL(ctx context.Context, servers NameServers, silence *Silence, name string) (time.Duration, error) {
	said, err := ask(ctx, servers, name)
	if err != nil {
		return 0, err
	}
	if len(said) == 0 {
		return 0, errors.New("no name server was asked")
	}
	if err := silence.Bear(said.silent()); err != nil {
		return 0, err
	}
	var longest time.Duration
	for _, of := range said {
		longest = max(longest, of.ttl)
	}
	return longest, nil
}

// PublishedTTL returns the TTL with which the name enters caches from now on: the longest that its name servers
// publish. It fails unless each of them answers, knows the name and is responsible for it: what others say may be what
// is left of a TTL.
func PublishedTTL(ctx context.Context, servers NameServers, name string) (time.Duration, error) {
	said, err := ask(ctx, servers, name)
	if err != nil {
		return 0, err
	}
	if len(said) == 0 {
		return 0, errors.New("no name server was asked")
	}
	var longest time.Duration
	for _, server := range slices.Sorted(maps.Keys(said)) {
		switch of := said[server]; {
		case of.err != nil:
			return 0, of.err
		case len(of.aliases)+len(of.addresses) == 0:
			return 0, fmt.Errorf("name server %s does not know the name", server)
		case of.cached:
			return 0, fmt.Errorf("name server %s is not responsible for the name", server)
		default:
			longest = max(longest, of.ttl)
		}
	}
	return longest, nil
}

// saying is what one name server says about a name.
type saying struct {
	aliases, addresses []string
	ttl                time.Duration
	// cached reports whether it is not responsible for the name.
	cached bool
	// err tells why it did not answer one of the questions.
	err error
}

// nothing reports whether the name server has answered none of the questions. What it has answered counts, also if it
// was silent otherwise.
func (s saying) nothing() bool { return s.err != nil && len(s.aliases)+len(s.addresses) == 0 }

// sayings are those of the name servers, by their addresses.
type sayings map[string]saying

// silent returns for each name server why it did not answer, or nil.
func (s sayings) silent() map[string]error {
	out := map[string]error{}
	for server, said := range s {
		out[server] = said.err
	}
	return out
}

// ask returns what each name server says about the name. The questions for all types of records are asked at once, so
// that one that does not answer is waited for only once.
func ask(ctx context.Context, servers NameServers, name string) (sayings, error) {
	var (
		types   = []uint16{dns.TypeCNAME, dns.TypeA, dns.TypeAAAA}
		answers = make([][]Answer, len(types))
		errs    = make([]error, len(types))
		asked   sync.WaitGroup
	)
	for i, recordType := range types {
		asked.Go(func() { answers[i], errs[i] = servers.Ask(ctx, name, dns.TypeToString[recordType]) })
	}
	asked.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := sayings{}
	for i, recordType := range types {
		for _, answer := range answers[i] {
			of := out[answer.Server]
			if of.err == nil {
				of.err = answer.Err
			}
			of.ttl = max(of.ttl, answer.TTL)
			of.cached = of.cached || !answer.Authoritative
			if recordType == dns.TypeCNAME {
				of.aliases = answer.Values
			} else {
				of.addresses = append(of.addresses, answer.Values...)
			}
			out[answer.Server] = of
		}
	}
	return out, nil
}

// judge returns nil if what a name server says leads to the target.
func (t *Target) judge(what saying) error {
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
