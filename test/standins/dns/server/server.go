// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package server implements an authoritative DNS server whose records are changed by RFC 2136 updates. In the landscape
// it stands in for a cloud provider's DNS service: upstream's local provider writes to it, clients and seeds read from
// it.
package server

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/miekg/dns"
	"k8s.io/utils/clock"
)

const (
	// negativeTTL is for how long resolvers may remember that a name does not exist: that of Route 53's zones. Who asks
	// for a name before it exists waits for what the caches on the way make of it.
	negativeTTL = 900
	// ownTTL is that of the server's own names and of load balancers, as clouds have it.
	ownTTL    = 60
	maxCNAMEs = 8
)

// Options configure a Server.
type Options struct {
	// Zones are served with authority. A name in none of them does not exist: there is no world behind this server.
	Zones []string
	// Address is given out as the address of ns.<zone>, the name server of each zone.
	Address netip.Addr
	// StateFile keeps the records across restarts; empty keeps them in memory only.
	StateFile string
	// ChangeLog takes one JSON line per changed record set (see Change); empty logs nothing.
	ChangeLog string
	// Hosts are names in the zones with one address each, which no update may touch: those of load balancers.
	Hosts map[string]netip.Addr
	// Replicas are name servers beside the first one.
	Replicas []Replica
	// Aliases has the server keep a CNAME into one of its zones as an alias, as Route 53 does: it answers with the
	// addresses of the target, under the name that was asked for and with the TTL of the addresses, and knows no CNAME.
	Aliases bool
	// TTLCap limits the TTL of answers, zero leaves it as written.
	TTLCap time.Duration
	Clock  clock.PassiveClock
	Log    logr.Logger
}

// Server answers queries and updates.
type Server struct {
	log     logr.Logger
	zones   []string // canonical, longest first
	address netip.Addr
	ttlCap  uint32
	aliases bool
	hosts   map[string]netip.Addr // by canonical name
	// replicas are the name servers beside the first one.
	replicas []Replica
	store    *store
}

var _ dns.Handler = &Server{}

// New loads the state file and returns a Server.
func New(opts Options) (*Server, error) {
	if len(opts.Zones) == 0 {
		return nil, errors.New("failed to create DNS server: no zone given")
	}
	if !opts.Address.IsValid() {
		return nil, errors.New("failed to create DNS server: no address for its own name given")
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	s := &Server{log: opts.Log, address: opts.Address, ttlCap: uint32(opts.TTLCap / time.Second),
		aliases: opts.Aliases, hosts: map[string]netip.Addr{}, replicas: opts.Replicas}
	for name, address := range opts.Hosts {
		s.hosts[dns.CanonicalName(name)] = address
	}
	for _, zone := range opts.Zones {
		if _, valid := dns.IsDomainName(zone); !valid || zone == "" {
			return nil, fmt.Errorf("failed to create DNS server: zone %q is no domain name", zone)
		}
		s.zones = append(s.zones, dns.CanonicalName(zone))
	}
	slices.SortFunc(s.zones, func(a, b string) int { return len(b) - len(a) })
	var keep time.Duration
	for i, replica := range opts.Replicas {
		if !replica.Address.IsValid() || replica.Lag < 0 || replica.Silence < 0 {
			return nil, fmt.Errorf("failed to create DNS server: replica %d has no address, or negative times", i)
		}
		keep = max(keep, replica.Lag)
	}
	var err error
	if s.store, err = openStore(opts.StateFile, opts.ChangeLog, opts.Clock); err != nil {
		return nil, err
	}
	s.store.keep = keep
	return s, nil
}

// Close releases the change log.
func (s *Server) Close() error { return s.store.close() }

// Accept lets updates through, which the library refuses by default.
func Accept(header dns.Header) dns.MsgAcceptAction {
	const response, opcodeMask = 1 << 15, 0xf
	if header.Bits&response != 0 {
		return dns.MsgIgnore
	}
	if header.Qdcount != 1 {
		return dns.MsgReject
	}
	switch int(header.Bits>>11) & opcodeMask {
	case dns.OpcodeQuery, dns.OpcodeUpdate:
		return dns.MsgAccept
	}
	return dns.MsgRejectNotImplemented
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, request *dns.Msg) {
	response := new(dns.Msg).SetReply(request)
	if request.Opcode == dns.OpcodeUpdate {
		rcode, err := s.update(request)
		if err != nil {
			s.log.Error(err, "Failed to apply update", "client", w.RemoteAddr().String())
		}
		response.Rcode = rcode
		s.log.Info("Update", "client", w.RemoteAddr().String(), "zone", request.Question[0].Name, "rcode",
			dns.RcodeToString[rcode], "records", describe(request.Ns))
	} else {
		s.answer(response, request.Question[0], s.store.now())
	}
	s.send(w, request, response)
}

// send answers in the size that the client can take.
func (s *Server) send(w dns.ResponseWriter, request, response *dns.Msg) {
	size := dns.MinMsgSize
	if opt := request.IsEdns0(); opt != nil {
		response.SetEdns0(dns.DefaultMsgSize, false)
		size = max(size, int(opt.UDPSize()))
	}
	if w.RemoteAddr().Network() == "udp" {
		response.Truncate(size)
	}
	if err := w.WriteMsg(response); err != nil {
		s.log.V(1).Info("Failed to answer", "client", w.RemoteAddr().String(), "error", err.Error())
	}
}

func describe(rrs []dns.RR) []string {
	lines := make([]string, 0, len(rrs))
	for _, rr := range rrs {
		lines = append(lines, strings.Join(strings.Fields(rr.String()), " "))
	}
	return lines
}

func (s *Server) zoneOf(name string) string {
	for _, zone := range s.zones {
		if dns.IsSubDomain(zone, name) {
			return zone
		}
	}
	return ""
}

// own returns the records that the server makes up itself and that no update may touch; ok reports whether name has
// such.
func (s *Server) own(name string, serial uint32) (rrs []dns.RR, ok bool) {
	if address, ok := s.hosts[name]; ok {
		return addressRecord(name, address), true
	}
	zone := s.zoneOf(name)
	for i, address := range s.addresses() {
		switch server := nameServer(i, zone); name {
		case zone:
			rrs = append(rrs, &dns.NS{Hdr: header(zone, dns.TypeNS, ownTTL), Ns: server})
		case server:
			return addressRecord(name, address), true
		}
	}
	if len(rrs) == 0 {
		return nil, false
	}
	return append(rrs, s.soa(zone, serial)), true
}

func addressRecord(name string, address netip.Addr) []dns.RR {
	if address.Is4() {
		return []dns.RR{&dns.A{Hdr: header(name, dns.TypeA, ownTTL), A: address.AsSlice()}}
	}
	return []dns.RR{&dns.AAAA{Hdr: header(name, dns.TypeAAAA, ownTTL), AAAA: address.AsSlice()}}
}

// addresses are those of all name servers, the first one first.
func (s *Server) addresses() []netip.Addr {
	addresses := []netip.Addr{s.address}
	for _, replica := range s.replicas {
		addresses = append(addresses, replica.Address)
	}
	return addresses
}

// nameServer is the name of a name server of the zone: ns, ns2, ns3 and so on.
func nameServer(index int, zone string) string {
	if index == 0 {
		return "ns." + zone
	}
	return fmt.Sprintf("ns%d.%s", index+1, zone)
}

func (s *Server) soa(zone string, serial uint32) *dns.SOA {
	return &dns.SOA{
		Hdr: header(zone, dns.TypeSOA, negativeTTL), Ns: nameServer(0, zone), Mbox: "hostmaster." + zone,
		Serial: serial, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: negativeTTL,
	}
}

func header(name string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

func (s *Server) answer(response *dns.Msg, question dns.Question, known snapshot) {
	name, viaAlias := dns.CanonicalName(question.Name), false
	for range maxCNAMEs {
		zone := s.zoneOf(name)
		if zone == "" {
			if len(response.Answer) == 0 {
				response.Rcode = dns.RcodeNameError
			}
			return
		}
		response.Authoritative = true
		rrs, exists := s.lookup(name, question.Qtype, known)
		if target := s.aliasOf(rrs); target != "" {
			if question.Qtype == dns.TypeCNAME {
				rrs = nil // the name exists, and has no CNAME
			} else {
				name, viaAlias = target, true
				continue
			}
		}
		if viaAlias {
			exists = true
			for _, rr := range rrs {
				rr.Header().Name = dns.CanonicalName(question.Name)
			}
		}
		response.Answer = append(response.Answer, rrs...)
		if len(rrs) == 0 {
			response.Ns = []dns.RR{s.soa(zone, known.serial)}
			if !exists {
				response.Rcode = dns.RcodeNameError
			}
			return
		}
		alias, isAlias := rrs[0].(*dns.CNAME)
		if !isAlias || question.Qtype == dns.TypeCNAME || question.Qtype == dns.TypeANY {
			return
		}
		name = dns.CanonicalName(alias.Target)
	}
	response.Rcode = dns.RcodeServerFailure // a chain of aliases that does not end
}

// aliasOf returns the target of a record that the server keeps as an alias, which is one of its own names.
func (s *Server) aliasOf(rrs []dns.RR) string {
	if !s.aliases || len(rrs) == 0 {
		return ""
	}
	record, ok := rrs[0].(*dns.CNAME)
	if !ok || s.zoneOf(dns.CanonicalName(record.Target)) == "" {
		return ""
	}
	return dns.CanonicalName(record.Target)
}

// lookup returns the records of a name for the type (or the CNAME that stands for it) and whether the name exists at
// all.
func (s *Server) lookup(name string, rrtype uint16, known snapshot) ([]dns.RR, bool) {
	if rrs, ok := s.own(name, known.serial); ok {
		return slices.DeleteFunc(
			rrs, func(rr dns.RR) bool { return rrtype != dns.TypeANY && rr.Header().Rrtype != rrtype }), true
	}
	sets, source := known.sets, name
	if !sets.existsAtOrBelow(name) {
		source = wildcard(sets, s.zoneOf(name), name)
		if source == "" {
			return nil, false
		}
	}
	var rrs []dns.RR
	for key, set := range sets {
		if key.name != source || rrtype != dns.TypeANY && key.rrtype != rrtype && key.rrtype != dns.TypeCNAME {
			continue
		}
		for _, rr := range set {
			rr = dns.Copy(rr)
			rr.Header().Name = name
			if s.ttlCap > 0 {
				rr.Header().Ttl = min(rr.Header().Ttl, s.ttlCap)
			}
			rrs = append(rrs, rr)
		}
	}
	return rrs, true
}

// wildcard returns the wildcard that covers a name that does not exist: only the one directly below the closest
// existing ancestor counts (RFC 4592, section 3.3.1).
func wildcard(sets recordSets, zone, name string) string {
	for parent := name; parent != zone; {
		next, end := dns.NextLabel(parent, 0)
		if end {
			return ""
		}
		parent = parent[next:]
		if sets.exists("*." + parent) {
			return "*." + parent
		}
		if sets.existsAtOrBelow(parent) {
			return ""
		}
	}
	return ""
}
