// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// Cut is a way of interrupting traffic.
type Cut string

const (
	// CutReset resets present connections and new ones, as a peer does that refuses.
	CutReset Cut = "reset"
	// CutFreeze drops the packets of connections and closes nothing, as a broken network does: what arrives is not even
	// acknowledged, so that the kernels of both ends retransmit and give up by their own rules.
	CutFreeze Cut = "freeze"
)

// Direction is that in which a fault is in force.
type Direction string

const (
	// Upstream is from the client, which has opened the connection, to the Service.
	Upstream Direction = "upstream"
	// Downstream is from the Service to the client.
	Downstream Direction = "downstream"
)

// Fault changes how connections are served, present ones included. A connection must match To, From and SNI.
type Fault struct {
	// To are the seeds whose public addresses the connections lead to. Empty stands for all.
	To []string `json:"to,omitempty"`
	// From are the names of those who open the connections (see Who). Empty stands for all.
	From []string `json:"from,omitempty"`
	// SNI is a pattern for the server name that the connection's ClientHello asks for, in which * stands for any
	// characters. Empty and "*" stand for all connections, with or without TLS.
	SNI string `json:"sni,omitempty"`
	// Direction is that of latency, of loss and of CutFreeze. Empty stands for both.
	Direction Direction `json:"direction,omitempty"`
	// Latency is added to each direction that the fault is in force in.
	Latency metav1.Duration `json:"latency,omitzero"`
	Cut     Cut             `json:"cut,omitempty"`
	// Loss is the percentage of packets that are dropped at random, as they arrive at the load balancer, in each
	// direction that the fault is in force in. The sender sends them again, and what comes meanwhile is out of order.
	Loss int `json:"loss,omitempty"`
	// Every makes the fault come back: it is in force for For when it is added, and again each time that Every has
	// passed since. Zero for both stands for a fault that stays.
	Every metav1.Duration `json:"every,omitzero"`
	For   metav1.Duration `json:"for,omitzero"`
}

// Validate reports whether the fault makes sense.
func (f Fault) Validate() error {
	if _, err := path.Match(f.SNI, ""); err != nil {
		return fmt.Errorf("sni: %q is no pattern", f.SNI)
	}
	if !slices.Contains([]Direction{"", Upstream, Downstream}, f.Direction) {
		return fmt.Errorf("direction: %q is neither %q nor %q", f.Direction, Upstream, Downstream)
	}
	if f.Latency.Duration < 0 {
		return errors.New("latency: must not be negative")
	}
	if !slices.Contains([]Cut{"", CutReset, CutFreeze}, f.Cut) {
		return fmt.Errorf("cut: %q is neither %q nor %q", f.Cut, CutReset, CutFreeze)
	}
	if f.Cut == CutReset && f.Direction != "" {
		return errors.New("direction: a reset ends both directions")
	}
	if f.Loss < 0 || f.Loss >= everything {
		return fmt.Errorf("loss: %d is no percentage from 1 to 99; cut everything by cut", f.Loss)
	}
	if f.Cut == "" && f.Latency.Duration == 0 && f.Loss == 0 {
		return errors.New("latency, loss or cut is required")
	}
	if f.comesBack() && (f.For.Duration <= 0 || f.For.Duration >= f.Every.Duration) {
		return fmt.Errorf("for: %s is not between 0s and the time after which the fault comes back, %s",
			f.For.Duration, f.Every.Duration)
	}
	return nil
}

// comesBack reports whether the fault is in force from time to time.
func (f Fault) comesBack() bool { return f.Every.Duration != 0 || f.For.Duration != 0 }

// anyName reports whether the fault is for connections whatever they ask for.
func (f Fault) anyName() bool { return f.SNI == "" || f.SNI == "*" }

// matches reports whether the fault is for the connection.
func (f Fault) matches(c connection) bool {
	if len(f.To) > 0 && !slices.Contains(f.To, c.to) || len(f.From) > 0 && !slices.Contains(f.From, c.from) {
		return false
	}
	if f.anyName() {
		return true
	}
	matched, _ := path.Match(f.SNI, c.serverName)
	return matched && c.serverName != ""
}

// in reports whether the fault is in force in the direction.
func (f Fault) in(direction Direction) bool { return f.Direction == "" || f.Direction == direction }

// connection is what is known of a connection.
type connection struct {
	to, from, serverName string
}

// disturbance is the sum of the faults that a connection has in one direction.
type disturbance struct {
	latency time.Duration
	frozen  bool
	loss    int
}

// lost is the percentage of packets that the kernel is to discard.
func (d disturbance) lost() int {
	if d.frozen {
		return everything
	}
	return d.loss
}

// effect is the sum of the faults that a connection has.
type effect struct {
	upstream, downstream disturbance
	reset                bool
}

func (e effect) of(direction Direction) disturbance {
	if direction == Upstream {
		return e.upstream
	}
	return e.downstream
}

// Faults is the set of faults in force.
type Faults struct {
	// Clock may be replaced before the first fault is added.
	Clock clock.Clock

	who   *Who
	seeds []string

	mu       sync.Mutex
	list     []*entry
	changed  chan struct{}
	watchers map[int]func()
	next     int
}

// entry is a fault that has been added and not been lifted.
type entry struct {
	Fault

	// rests is true while a fault that comes back is not in force.
	rests bool
	// lifted is closed when the fault is lifted.
	lifted chan struct{}
}

// NewFaults returns an empty set for the public addresses of the seeds.
func NewFaults(who *Who, seeds ...string) *Faults {
	return &Faults{Clock: clock.RealClock{}, who: who, seeds: seeds, changed: make(chan struct{}),
		watchers: map[int]func(){}}
}

// Add puts a fault in force. A fault that no connection can match is refused.
func (f *Faults) Add(fault Fault) error {
	if err := fault.Validate(); err != nil {
		return err
	}
	if err := f.checkSeeds(fault.To); err != nil {
		return err
	}
	for _, name := range fault.From {
		if !f.who.Known(name) {
			return fmt.Errorf("from: there is no %q; there are %s", name, strings.Join(f.who.Names(), ", "))
		}
	}
	fault.SNI = strings.ToLower(fault.SNI)
	added := &entry{Fault: fault, lifted: make(chan struct{})}
	f.update(func() { f.list = append(f.list, added) })
	if fault.comesBack() {
		go f.repeat(added)
	}
	return nil
}

// repeat lets a fault rest and come back until it is lifted.
func (f *Faults) repeat(e *entry) {
	for rests := true; ; rests = !rests {
		pause := e.For.Duration
		if !rests {
			pause = e.Every.Duration - e.For.Duration
		}
		select {
		case <-e.lifted:
			return
		case <-f.Clock.After(pause):
		}
		f.update(func() { e.rests = rests })
	}
}

func (f *Faults) checkSeeds(names []string) error {
	for _, name := range names {
		if !slices.Contains(f.seeds, name) {
			return fmt.Errorf("to: there is no %q; there are %s", name, strings.Join(f.seeds, ", "))
		}
	}
	return nil
}

// Selection says which faults are lifted. What is left out stands for all.
type Selection struct {
	// To is the seed that the faults are for. Those for several seeds stay in force for the others.
	To      string
	Latency time.Duration
	Cut     Cut
	Loss    int
}

// all reports whether it says nothing of what the faults do.
func (s Selection) all() bool { return s.Latency == 0 && s.Cut == "" && s.Loss == 0 }

// Lift lifts the faults with the same latency, cut and loss, whoever else and whichever direction they are for. Without
// all three it lifts all.
func (f *Faults) Lift(selected Selection) error {
	if selected.To != "" {
		if err := f.checkSeeds([]string{selected.To}); err != nil {
			return err
		}
	}
	f.update(func() {
		var left []*entry
		for _, fault := range f.list {
			same := fault.Latency.Duration == selected.Latency && fault.Cut == selected.Cut &&
				fault.Loss == selected.Loss
			if !same && !selected.all() {
				left = append(left, fault)
				continue
			}
			if selected.To != "" {
				to := fault.To
				if len(to) == 0 {
					to = f.seeds
				}
				fault.To = slices.DeleteFunc(slices.Clone(to), func(seed string) bool { return seed == selected.To })
				if len(fault.To) > 0 {
					left = append(left, fault)
					continue
				}
			}
			close(fault.lifted)
		}
		f.list = left
	})
	return nil
}

// List returns the faults that have been added and not been lifted, those that rest among them.
func (f *Faults) List() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Fault, 0, len(f.list))
	for _, fault := range f.list {
		list = append(list, fault.Fault)
	}
	return list
}

// Refresh lets everyone look again, because it has become known who has an address.
func (f *Faults) Refresh() { f.update(func() {}) }

func (f *Faults) update(change func()) {
	f.mu.Lock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
	watchers := make([]func(), 0, len(f.watchers))
	for _, watcher := range f.watchers {
		watchers = append(watchers, watcher)
	}
	f.mu.Unlock()
	for _, watcher := range watchers {
		watcher()
	}
}

// of returns the sum of the faults for a connection, and a channel that is closed when the set changes.
func (f *Faults) of(c connection) (effect, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum effect
	for _, fault := range f.list {
		if fault.rests || !fault.matches(c) {
			continue
		}
		sum.reset = sum.reset || fault.Cut == CutReset
		for direction, disturbed := range map[Direction]*disturbance{
			Upstream: &sum.upstream, Downstream: &sum.downstream,
		} {
			if fault.in(direction) {
				disturbed.latency += fault.Latency.Duration
				disturbed.frozen = disturbed.frozen || fault.Cut == CutFreeze
				disturbed.loss = max(disturbed.loss, fault.Loss)
			}
		}
	}
	return sum, f.changed
}

// unreachable returns for whom the seed's public address does not answer at all: those whose packets are dropped,
// whatever they carry. all is true if that is everyone.
func (f *Faults) unreachable(seed string) (names []string, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.list {
		if fault.rests || fault.Cut != CutFreeze || !fault.anyName() ||
			len(fault.To) > 0 && !slices.Contains(fault.To, seed) {
			continue
		}
		if len(fault.From) == 0 {
			return nil, true
		}
		names = append(names, fault.From...)
	}
	return names, false
}

// watch has notify called after each change until the returned function is called.
func (f *Faults) watch(notify func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.next
	f.next++
	f.watchers[id] = notify
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, id)
	}
}
