// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
	"k8s.io/utils/clock"
)

// ErrNoRecord means that the DNS server answered and the answer holds no address.
var ErrNoRecord = errors.New("no record")

// Resolver asks one DNS server. Go's own resolver neither tells nor honours the TTL, so a client that keeps answers as
// long as they are valid, as resolvers in the field do, needs its own.
type Resolver struct {
	server string
	client dns.Client
	clock  clock.PassiveClock

	mu    sync.Mutex
	cache map[string]cachedAnswer
}

type cachedAnswer struct {
	addresses []netip.Addr
	expires   time.Time
}

// A datagram can get lost, so a question is asked again, as resolvers in the field do (resolv.conf(5): attempts,
// timeout).
const (
	attempts       = 3
	attemptTimeout = 2 * time.Second
)

// NewResolver returns a Resolver that asks the given server (host:port).
func NewResolver(server string, c clock.PassiveClock) *Resolver {
	return &Resolver{
		server: server,
		client: dns.Client{Timeout: attemptTimeout},
		clock:  c,
		cache:  map[string]cachedAnswer{},
	}
}

// Lookup asks the server for the IPv4 addresses of the name. It follows aliases, and the TTL is the shortest on the
// way.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	const maxAliases = 8

	var (
		fqdn = dns.Fqdn(name)
		ttl  = uint32(1<<31 - 1)
	)
	for range maxAliases {
		answer, err := r.exchange(ctx, fqdn)
		if err != nil {
			return nil, 0, fmt.Errorf("failed to resolve %s: %w", name, err)
		}

		var addresses []netip.Addr
		alias := ""
		for _, rr := range answer.Answer {
			switch record := rr.(type) {
			case *dns.A:
				if address, ok := netip.AddrFromSlice(record.A.To4()); ok {
					addresses = append(addresses, address)
				}
			case *dns.CNAME:
				alias = record.Target
			default:
				continue
			}
			ttl = min(ttl, rr.Header().Ttl)
		}
		if len(addresses) > 0 {
			return addresses, time.Duration(ttl) * time.Second, nil
		}
		if alias == "" {
			return nil, 0, fmt.Errorf("failed to resolve %s: %w", name, ErrNoRecord)
		}
		fqdn = alias
	}
	return nil, 0, fmt.Errorf("failed to resolve %s: too many aliases", name)
}

func (r *Resolver) exchange(ctx context.Context, fqdn string) (*dns.Msg, error) {
	question := new(dns.Msg).SetQuestion(fqdn, dns.TypeA)
	var (
		answer *dns.Msg
		err    error
	)
	for range attempts {
		if answer, _, err = r.client.ExchangeContext(ctx, question, r.server); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	switch answer.Rcode {
	case dns.RcodeSuccess:
		return answer, nil
	case dns.RcodeNameError:
		return nil, ErrNoRecord
	default:
		return nil, fmt.Errorf("server answered %s", dns.RcodeToString[answer.Rcode])
	}
}

// LookupCached answers from memory as long as the TTL of the last answer allows, and asks the server otherwise.
func (r *Resolver) LookupCached(ctx context.Context, name string) ([]netip.Addr, error) {
	r.mu.Lock()
	cached, ok := r.cache[name]
	r.mu.Unlock()
	if ok && r.clock.Now().Before(cached.expires) {
		return cached.addresses, nil
	}

	addresses, ttl, err := r.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.cache[name] = cachedAnswer{addresses: addresses, expires: r.clock.Now().Add(ttl)}
	r.mu.Unlock()
	return addresses, nil
}

// systemLookup asks the resolver of the machine.
func systemLookup(ctx context.Context, host string) ([]netip.Addr, error) {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve %s: %w", host, err)
	}
	return addresses, nil
}
