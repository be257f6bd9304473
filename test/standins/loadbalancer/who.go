// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// Elsewhere is the name of all whose address is nobody's.
const Elsewhere = "elsewhere"

// Who knows who opens a connection, by the address that it comes from: the pods of a seed have that of their node.
type Who struct {
	mu        sync.Mutex
	addresses map[string][]netip.Addr
}

// NewWho returns a Who that knows nobody but Elsewhere.
func NewWho() *Who { return &Who{addresses: map[string][]netip.Addr{}} }

// Set makes the addresses those of the name, in place of its former ones, and reports whether that is a change.
func (w *Who) Set(name string, addresses ...netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	former, known := w.addresses[name]
	w.addresses[name] = slices.Clone(addresses)
	return !known || !slices.Equal(former, addresses)
}

// Name returns who has the address.
func (w *Who) Name(address netip.Addr) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, addresses := range w.addresses {
		if slices.Contains(addresses, address.Unmap()) {
			return name
		}
	}
	return Elsewhere
}

// Addresses returns the addresses of the names. Elsewhere has none that could be listed.
func (w *Who) Addresses(names ...string) []netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []netip.Addr
	for _, name := range names {
		all = append(all, w.addresses[name]...)
	}
	return all
}

// Known reports whether connections can have the name.
func (w *Who) Known(name string) bool { return slices.Contains(w.Names(), name) }

// Names returns all names in alphabetical order, and Elsewhere at the end.
func (w *Who) Names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(slices.Sorted(maps.Keys(w.addresses)), Elsewhere)
}
