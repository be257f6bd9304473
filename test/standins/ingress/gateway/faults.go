// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cut is a way of interrupting traffic.
type Cut string

const (
	// CutReset resets present connections and new ones, as a peer does that refuses.
	CutReset Cut = "reset"
	// CutFreeze lets no byte through in either direction and closes nothing, as a network does that drops packets.
	CutFreeze Cut = "freeze"
)

// Fault changes how connections with matching server names are served, present ones included.
type Fault struct {
	// SNI is a pattern in which * stands for any characters.
	SNI string `json:"sni"`
	// Latency is added to each direction.
	Latency metav1.Duration `json:"latency,omitzero"`
	Cut     Cut             `json:"cut,omitempty"`
}

// Validate reports whether the fault makes sense.
func (f Fault) Validate() error {
	if _, err := path.Match(f.SNI, ""); err != nil || f.SNI == "" {
		return fmt.Errorf("sni: %q is no pattern", f.SNI)
	}
	if f.Latency.Duration < 0 {
		return errors.New("latency: must not be negative")
	}
	if !slices.Contains([]Cut{"", CutReset, CutFreeze}, f.Cut) {
		return fmt.Errorf("cut: %q is neither %q nor %q", f.Cut, CutReset, CutFreeze)
	}
	if f.Cut == "" && f.Latency.Duration == 0 {
		return errors.New("latency or cut is required")
	}
	return nil
}

// Faults is the set of faults in force.
type Faults struct {
	mu      sync.Mutex
	list    []Fault
	changed chan struct{}
	waiters map[*link]struct{}
}

// NewFaults returns an empty set.
func NewFaults() *Faults {
	return &Faults{changed: make(chan struct{}), waiters: map[*link]struct{}{}}
}

// Add puts a fault in force.
func (f *Faults) Add(fault Fault) error {
	if err := fault.Validate(); err != nil {
		return err
	}
	fault.SNI = strings.ToLower(fault.SNI)
	f.update(func() { f.list = append(f.list, fault) })
	return nil
}

// Reset lifts all faults.
func (f *Faults) Reset() { f.update(func() { f.list = nil }) }

// Lift lifts the faults with the same latency and the same cut, whatever connections they are for.
func (f *Faults) Lift(fault Fault) {
	f.update(func() {
		f.list = slices.DeleteFunc(
			f.list, func(other Fault) bool { return other.Latency == fault.Latency && other.Cut == fault.Cut })
	})
}

// List returns the faults in force.
func (f *Faults) List() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Fault{}, f.list...)
}

func (f *Faults) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
	for l := range f.waiters {
		l.interrupt()
	}
}

// of returns the sum of the faults for a server name, and a channel that is closed when the set changes.
func (f *Faults) of(serverName string) (Fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := Fault{SNI: serverName}
	for _, fault := range f.list {
		if matched, _ := path.Match(fault.SNI, serverName); !matched {
			continue
		}
		sum.Latency.Duration += fault.Latency.Duration
		if sum.Cut != CutReset && fault.Cut != "" {
			sum.Cut = fault.Cut
		}
	}
	return sum, f.changed
}

// watch has the link interrupted at each change until the returned function is called.
func (f *Faults) watch(l *link) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters[l] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waiters, l)
	}
}
