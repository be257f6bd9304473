// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package dns asks the name servers that are responsible for a name what they tell others.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Answer is what one name server says about a name. Values is empty when it knows none.
type Answer struct {
	// Server is the address of the name server, or its name if that has no address.
	Server string
	// Err tells why the name server did not answer. It cannot be known then what it tells others.
	Err error
	// Values are the addresses (A, AAAA) or names (CNAME, without the trailing dot), sorted.
	Values []string
	// TTL is how long a cache may keep the answer.
	TTL time.Duration
	// Authoritative reports whether the server is responsible for the name: then the TTL is that of the record. From
	// another one it is what is left of it.
	Authoritative bool
}

// NameServers answers what the DNS servers responsible for a name say about it.
type NameServers interface {
	// Ask returns one answer for each name server, also for those that do not answer (Answer.Err). It fails if the name
	// servers cannot be found.
	Ask(ctx context.Context, name, recordType string) ([]Answer, error)
}

// NewNameServers returns NameServers that ask the given servers ("host:port"). When there are none, they look up the
// authoritative servers of the name's zone through the resolvers of this machine; where a zone publishes none, those
// resolvers themselves are asked.
func NewNameServers(servers []string) NameServers {
	return &nameServers{servers: servers, resolvConf: "/etc/resolv.conf", client: &dns.Client{Timeout: 5 * time.Second}}
}

type nameServers struct {
	servers    []string
	resolvConf string
	client     *dns.Client
}

func (n *nameServers) Ask(ctx context.Context, name, recordType string) ([]Answer, error) {
	rrType, ok := dns.StringToType[recordType]
	if !ok {
		return nil, fmt.Errorf("failed to ask for %s: unknown record type %q", name, recordType)
	}

	servers, err := n.find(ctx, name)
	if err != nil {
		return nil, err
	}
	// All are asked at once: they do not add up their timeouts.
	var (
		answers = make([]Answer, len(servers))
		asked   sync.WaitGroup
	)
	for i, server := range servers {
		if server.err != nil {
			answers[i] = Answer{Server: server.address, Err: server.err}
			continue
		}
		asked.Go(func() {
			response, err := n.exchange(ctx, name, rrType, server.address)
			if err != nil {
				answers[i] = Answer{Server: server.address, Err: err}
				return
			}
			answers[i] = answerOf(server.address, response, rrType)
		})
	}
	asked.Wait()
	return answers, nil
}

// server is a name server to ask.
type server struct {
	address string
	// err tells why it cannot be asked; then the address is its name.
	err error
}

// find returns the name servers to ask about the name.
func (n *nameServers) find(ctx context.Context, name string) ([]server, error) {
	if len(n.servers) == 0 {
		return n.authoritative(ctx, name)
	}
	return serversAt(n.servers), nil
}

func serversAt(addresses []string) []server {
	var out []server
	for _, address := range addresses {
		out = append(out, server{address: address})
	}
	return out
}

func answerOf(server string, response *dns.Msg, rrType uint16) Answer {
	answer := Answer{Server: server, Authoritative: response.Authoritative}
	for _, rr := range response.Answer {
		if rr.Header().Rrtype != rrType {
			continue
		}
		switch rr := rr.(type) {
		case *dns.A:
			answer.Values = append(answer.Values, rr.A.String())
		case *dns.AAAA:
			answer.Values = append(answer.Values, rr.AAAA.String())
		case *dns.CNAME:
			answer.Values = append(answer.Values, strings.TrimSuffix(rr.Target, "."))
		}
		answer.TTL = max(answer.TTL, time.Duration(rr.Header().Ttl)*time.Second)
	}
	slices.Sort(answer.Values)
	return answer
}

// authoritative walks up from the name until a domain publishes name servers.
func (n *nameServers) authoritative(ctx context.Context, name string) ([]server, error) {
	config, err := dns.ClientConfigFromFile(n.resolvConf)
	if err != nil {
		return nil, fmt.Errorf("failed to read resolvers from %s: %w", n.resolvConf, err)
	}
	var resolvers []string
	for _, server := range config.Servers {
		resolvers = append(resolvers, net.JoinHostPort(server, config.Port))
	}
	if len(resolvers) == 0 {
		return nil, fmt.Errorf("failed to find a resolver in %s", n.resolvConf)
	}

	for domain := dns.Fqdn(name); domain != "."; domain = parent(domain) {
		response, err := n.firstAnswer(ctx, domain, dns.TypeNS, resolvers)
		if err != nil {
			return nil, err
		}

		var servers []server
		for _, rr := range response.Answer {
			ns, ok := rr.(*dns.NS)
			if !ok {
				continue
			}
			addresses, err := n.addresses(ctx, ns.Ns, resolvers)
			if err == nil && len(addresses) == 0 {
				err = fmt.Errorf("failed to ask name server %s: it has no address", ns.Ns)
			}
			if err != nil {
				// Others may have its address in their caches.
				servers = append(servers, server{address: ns.Ns, err: err})
				continue
			}
			servers = append(servers, serversAt(addresses)...)
		}
		if len(servers) > 0 {
			return servers, nil
		}
	}
	return serversAt(resolvers), nil
}

func (n *nameServers) addresses(ctx context.Context, host string, resolvers []string) ([]string, error) {
	var addresses []string
	for _, rrType := range []uint16{dns.TypeA, dns.TypeAAAA} {
		response, err := n.firstAnswer(ctx, host, rrType, resolvers)
		if err != nil {
			return nil, err
		}
		for _, value := range answerOf("", response, rrType).Values {
			addresses = append(addresses, net.JoinHostPort(value, "53"))
		}
		// A server that has an IPv4 address is not asked twice.
		if len(addresses) > 0 {
			break
		}
	}
	return addresses, nil
}

// firstAnswer returns the response of the first resolver that can be reached.
func (n *nameServers) firstAnswer(
	ctx context.Context, name string, rrType uint16, resolvers []string,
) (*dns.Msg, error) {
	var errs []error
	for _, resolver := range resolvers {
		response, err := n.exchange(ctx, name, rrType, resolver)
		if err == nil {
			return response, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (n *nameServers) exchange(ctx context.Context, name string, rrType uint16, server string) (*dns.Msg, error) {
	query := (&dns.Msg{}).SetQuestion(dns.Fqdn(name), rrType)

	response, _, err := n.client.ExchangeContext(ctx, query, server)
	if err != nil {
		return nil, fmt.Errorf("failed to ask name server %s for %s %s: %w", server, dns.TypeToString[rrType], name,
			n.withoutPorts(err))
	}
	if response.Truncated {
		overTCP := *n.client
		overTCP.Net = "tcp"
		if response, _, err = overTCP.ExchangeContext(ctx, query, server); err != nil {
			return nil, fmt.Errorf("failed to ask name server %s over TCP for %s %s: %w", server,
				dns.TypeToString[rrType], name, n.withoutPorts(err))
		}
	}
	if response.Rcode != dns.RcodeSuccess && response.Rcode != dns.RcodeNameError {
		return nil, fmt.Errorf("failed to ask name server %s for %s %s: it answered %s", server,
			dns.TypeToString[rrType], name, dns.RcodeToString[response.Rcode])
	}
	return response, nil
}

// withoutPorts says the same about every attempt that fails alike. The text of the network's errors holds the port that
// the question came from, which differs each time, and a condition's message is made of it.
func (n *nameServers) withoutPorts(err error) error {
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return fmt.Errorf("it did not answer within %s", n.client.Timeout)
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Err
	}
	return err
}

func parent(domain string) string {
	next, end := dns.NextLabel(domain, 0)
	if end {
		return "."
	}
	return domain[next:]
}
