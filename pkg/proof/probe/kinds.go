// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// The kinds of objects that the load is about. The probe's own is in custom.go.
const (
	kindConfigMap  = "ConfigMap"
	kindEvent      = "Event"
	kindLease      = "Lease"
	kindPodMetrics = "PodMetrics"
)

// The verbs of the load, as failures name them.
const (
	verbCreate       = "create"
	verbGet          = "get"
	verbList         = "list"
	verbWatch        = "watch"
	verbUpdate       = "update"
	verbUpdateStatus = "update the status of"
	verbPatch        = "merge patch"
	verbApply        = "apply"
	verbDelete       = "delete"
	verbLead         = "lead by"
)

// request says what a request does. Failures name it.
type request struct{ verb, kind, name string }

func (r request) String() string {
	return strings.TrimSpace(r.verb + " " + r.kind + " " + r.name)
}

// operation is what a slot of the load does when it is its turn: one request.
type operation func(ctx context.Context)

// part is a part of the load.
type part struct {
	// name is that of the objects.
	name string
	// share is how many of the writes, or of the reads, it has, compared with the other parts.
	share int
	// begin returns an operation of the part: objects that it writes have the name, or names that begin with it.
	begin func(c *client, name string) operation
}

const (
	// keyShare is the share of the writes that Config.Keys counts the slots of.
	keyShare = 10
	// writeShares and readShares are the sums of the shares. They are the default rates per second, too.
	writeShares, readShares = 28, 40
)

// writeParts is what the writes are, by default 28 per second. Elections and Events come on top of them.
func (p *Probe) writeParts() []part {
	write := func(f *form) func(*client, string) operation {
		return func(c *client, name string) operation { return p.writing(f, c, name) }
	}
	return []part{
		{"update", keyShare, write(p.configMapForm(verbUpdate, p.updateConfigMap))},
		{"patch", 3, write(p.configMapForm(verbPatch, p.patchConfigMap))},
		{"apply", 3, write(p.applyForm())},
		// Each is created and left alone: later writes cannot cover up its loss.
		{"mark", 1, p.marking},
		// Each is created, and deleted when it is its turn again.
		{"brief", 4, p.passing},
		// Specification and status in turns.
		{"sample", 5, write(p.customForm())},
		{"heartbeat", 2, write(p.leaseForm())},
	}
}

// readParts is what the reads are, by default 40 per second. Without an aggregated API the others have its share.
func (p *Probe) readParts() []part {
	parts := []part{
		// Of all objects that are written in turn, over and over.
		{"get", 35, func(c *client, _ string) operation { return p.getting(c) }},
		// A page each.
		{"list", 4, func(c *client, _ string) operation { return p.listing(c) }},
	}
	if p.aggregated {
		parts = append(parts, part{"metrics", 1, func(c *client, _ string) operation { return p.metering(c) }})
	}
	return parts
}

// turn is a slot of a part.
type turn struct {
	part
	// number counts the slots of the part.
	number int
}

// turns returns the slots of all parts in an order in which each part comes up evenly. A slot is free again when its
// request has ended and takes its place behind the others, so that the parts keep their shares.
func turns(parts []part, keys int) []turn {
	type placed struct {
		turn
		place float64
	}
	var all []placed
	for _, part := range parts {
		count := max(1, part.share*keys/keyShare)
		for i := range count {
			all = append(all, placed{turn{part, i}, (float64(i) + 0.5) / float64(count)})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	out := make([]turn, 0, len(all))
	for _, one := range all {
		out = append(out, one.turn)
	}
	return out
}

// kindCounters count the requests of each verb and kind.
type kindCounters struct {
	mu     sync.Mutex
	counts map[request]*kindCount
}

// kindCount counts those of one verb and kind.
type kindCount struct {
	KindDetails
	// latencies are those of the ones that succeeded.
	latencies map[Phase][]time.Duration
}

func (k *kindCounters) of(r request) *kindCount {
	r.name = ""
	if k.counts == nil {
		k.counts = map[request]*kindCount{}
	}
	if k.counts[r] == nil {
		k.counts[r] = &kindCount{KindDetails: KindDetails{Verb: r.verb, Kind: r.kind},
			latencies: map[Phase][]time.Duration{}}
	}
	return k.counts[r]
}

func (k *kindCounters) sent(r request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of(r).Sent++
}

// succeeded takes the latency of a request that succeeded in the phase.
func (k *kindCounters) succeeded(r request, phase Phase, latency time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	count := k.of(r)
	count.latencies[phase] = append(count.latencies[phase], latency)
}

// failed counts a request that failed with the error, which try has marked if client-go would have sent it again.
func (k *kindCounters) failed(r request, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	count := k.of(r)
	count.Failed++
	if retryable(err) {
		count.Retryable++
	}
}

// details returns all counts in a fixed order.
func (k *kindCounters) details() []KindDetails {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]KindDetails, 0, len(k.counts))
	for _, count := range k.counts {
		details := count.KindDetails
		details.P99Ms = ByPhase{Before: count.p99(PhaseBefore), During: count.p99(PhaseDuring),
			After: count.p99(PhaseAfter)}
		out = append(out, details)
	}
	slices.SortFunc(out, func(a, b KindDetails) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Verb, b.Verb))
	})
	return out
}

// p99 returns what 99 % of the latencies in the phase do not exceed, in milliseconds; zero if there are none.
func (c *kindCount) p99(phase Phase) float64 {
	if len(c.latencies[phase]) == 0 {
		return 0
	}
	return milliseconds(share(slices.Sorted(slices.Values(c.latencies[phase])), 0.99))
}
