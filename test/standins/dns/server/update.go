// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"

	"github.com/miekg/dns"
)

// update answers an RFC 2136 message. The zone section must name a served zone, but the records may lie in any other
// one: provider-local sends the same hard-coded zone whatever the record's name is.
func (s *Server) update(request *dns.Msg) (int, error) {
	zone := request.Question[0]
	if zone.Qtype != dns.TypeSOA || zone.Qclass != dns.ClassINET {
		return dns.RcodeFormatError, nil
	}
	if !slices.Contains(s.zones, dns.CanonicalName(zone.Name)) {
		return dns.RcodeNotAuth, nil
	}
	for _, rr := range slices.Concat(request.Answer, request.Ns) {
		name := dns.CanonicalName(rr.Header().Name)
		if s.zoneOf(name) == "" {
			return dns.RcodeNotZone, nil
		}
		if _, own := s.own(name, 0); own {
			return dns.RcodeRefused, nil
		}
	}
	return s.store.update(func(sets recordSets) int {
		if rcode := checkPrerequisites(sets, request.Answer); rcode != dns.RcodeSuccess {
			return rcode
		}
		for _, rr := range request.Ns {
			if rcode := apply(sets, rr); rcode != dns.RcodeSuccess {
				return rcode
			}
		}
		return dns.RcodeSuccess
	})
}

// checkPrerequisites follows RFC 2136, section 3.2.
func checkPrerequisites(sets recordSets, prerequisites []dns.RR) int {
	wanted := recordSets{}
	for _, rr := range prerequisites {
		key, header := keyOf(rr), rr.Header()
		_, setExists := sets[key]
		switch header.Class {
		case dns.ClassANY:
			if header.Rrtype == dns.TypeANY && !sets.exists(key.name) {
				return dns.RcodeNameError
			}
			if header.Rrtype != dns.TypeANY && !setExists {
				return dns.RcodeNXRrset
			}
		case dns.ClassNONE:
			if header.Rrtype == dns.TypeANY && sets.exists(key.name) {
				return dns.RcodeYXDomain
			}
			if header.Rrtype != dns.TypeANY && setExists {
				return dns.RcodeYXRrset
			}
		case dns.ClassINET:
			wanted[key] = append(wanted[key], rr)
		default:
			return dns.RcodeFormatError
		}
	}
	for key, rrs := range wanted {
		if !slices.Equal(values(rrs), values(sets[key])) {
			return dns.RcodeNXRrset
		}
	}
	return dns.RcodeSuccess
}

// apply follows RFC 2136, section 3.4.2.
func apply(sets recordSets, rr dns.RR) int {
	key, header := keyOf(rr), rr.Header()
	switch header.Class {
	case dns.ClassANY:
		if header.Rrtype != dns.TypeANY {
			delete(sets, key)
			return dns.RcodeSuccess
		}
		for other := range sets {
			if other.name == key.name {
				delete(sets, other)
			}
		}
	case dns.ClassNONE:
		remaining := slices.DeleteFunc(slices.Clone(sets[key]), func(have dns.RR) bool { return sameData(have, rr) })
		if len(remaining) == 0 {
			delete(sets, key)
		} else {
			sets[key] = remaining
		}
	case dns.ClassINET:
		if header.Rrtype == dns.TypeANY || dns.TypeToString[header.Rrtype] == "" {
			return dns.RcodeFormatError
		}
		add(sets, key, rr)
	default:
		return dns.RcodeFormatError
	}
	return dns.RcodeSuccess
}

// add puts a record into its set. A CNAME excludes every other type at its name; whichever is there first stays, as the
// RFC has it. The whole set takes the newest TTL (RFC 2181, section 5.2).
func add(sets recordSets, key setKey, rr dns.RR) {
	for other := range sets {
		if other.name == key.name && other.rrtype != key.rrtype &&
			(other.rrtype == dns.TypeCNAME || key.rrtype == dns.TypeCNAME) {
			return
		}
	}
	var set []dns.RR
	if key.rrtype != dns.TypeCNAME { // a name has one CNAME at most: a new one replaces it
		for _, have := range sets[key] {
			if !sameData(have, rr) {
				have = dns.Copy(have)
				have.Header().Ttl = rr.Header().Ttl
				set = append(set, have)
			}
		}
	}
	added := dns.Copy(rr)
	added.Header().Name = key.name
	sets[key] = append(set, added)
}

func sameData(a, b dns.RR) bool { return slices.Equal(values([]dns.RR{a}), values([]dns.RR{b})) }
