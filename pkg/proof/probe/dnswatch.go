// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// DNSWatch samples names at their DNS server and notices when one has no record.
type DNSWatch struct {
	resolver *Resolver
	names    []string
	interval time.Duration
	clock    clock.WithTicker

	mu         sync.Mutex
	samples    int64
	unanswered int64
	moments    int64
	last       map[string]string
	changes    []DNSChange
}

// NewDNSWatch returns a watch for the names. Run starts it.
func NewDNSWatch(resolver *Resolver, names []string, interval time.Duration, c clock.WithTicker) *DNSWatch {
	return &DNSWatch{resolver: resolver, names: names, interval: interval, clock: c, last: map[string]string{}}
}

// Run samples until the context ends.
func (w *DNSWatch) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, name := range w.names {
		group.Go(func() {
			ticker := w.clock.NewTicker(w.interval)
			defer ticker.Stop()
			for {
				w.Sample(ctx, name)
				select {
				case <-ctx.Done():
					return
				case <-ticker.C():
				}
			}
		})
	}
	group.Wait()
}

// Sample asks once for the name. An error of the lookup itself tells nothing about the record and is counted apart.
func (w *DNSWatch) Sample(ctx context.Context, name string) {
	addresses, ttl, err := w.resolver.Lookup(ctx, name)
	if ctx.Err() != nil {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples++
	missing := errors.Is(err, ErrNoRecord)
	if err != nil && !missing {
		w.unanswered++
		return
	}

	texts := make([]string, 0, len(addresses))
	for _, address := range addresses {
		texts = append(texts, address.String())
	}
	slices.Sort(texts)
	answer := strings.Join(texts, ",")
	if previous, known := w.last[name]; known && previous == answer {
		return
	}
	w.last[name] = answer
	change := DNSChange{Time: w.clock.Now(), Name: name, Answer: answer, Missing: missing}
	if missing {
		w.moments++
	} else {
		change.TTL = ttl.String()
	}
	w.changes = append(w.changes, change)
}

// Result returns what was seen so far.
func (w *DNSWatch) Result() DNSResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	return DNSResult{
		Samples:              w.samples,
		Unanswered:           w.unanswered,
		MomentsWithoutRecord: w.moments,
		Changes:              slices.Clone(w.changes),
	}
}
