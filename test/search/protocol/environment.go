// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// freeEvents are those that cost nothing: passes of agents to which nothing happens, faults that end, time that passes,
// and persons who do what the state names.
func (w *World) freeEvents() []event {
	var out []event
	for seed, name := range seedNames {
		switch {
		case w.lost[seed]:
		case w.slow != nil && w.slow.by == seed:
			next := w.copy()
			next.slow = nil
			out = append(out,
				event{name: name + ": continues", next: w.after(next.pass(seed, w.slow.replies, fault{}))},
				w.changed(name+": is killed, and a replica takes over", func(w *World) { w.slow = nil }))
		default:
			out = append(out, event{name: name + ": passes", next: w.after(w.copy().pass(seed, nil, fault{}))})
		}
	}
	// A pass that is under way ends, or is killed, before any patience has come to its end.
	if later := aged(w.shoot); w.slow == nil && canonical(later) != canonical(w.shoot) {
		out = append(out, w.changed("time passes", func(w *World) { w.shoot = later }))
	}
	out = append(out, w.recoveries()...)
	return append(out, w.named()...)
}

// recoveries are the ends of faults that pass by themselves.
func (w *World) recoveries() []event {
	var out []event
	for seed, name := range seedNames {
		if w.down[seed] {
			out = append(out, w.changed(name+": its API server is back", func(w *World) { w.down[seed] = false }))
		}
	}
	if w.relaysLost {
		out = append(out, w.changed("the relays are back", func(w *World) { w.relaysLost = false }))
	}
	if !w.gateOpen && gate.ReadyForMigration(w.shoot) {
		out = append(out, w.somebody("the watchdog removes the constraint", write{door: "status",
			body: []byte(`{"status":{"constraints":null}}`)}))
	}
	return out
}

// somebody returns an event that is one write of the Shoot. A refused one changes nothing.
func (w *World) somebody(name string, request write) event {
	t := &turn{world: w.copy(), by: nobody}
	t.write(request)
	return event{name: name, next: w.after(t)}
}

// faultEvents are those that cost a fault.
func (w *World) faultEvents() []event {
	var out []event
	for seed := range seedNames {
		if !w.lost[seed] && (w.slow == nil || w.slow.by != seed) {
			out = append(out, w.troubled(seed)...)
		}
	}
	out = append(out, w.losses()...)
	out = append(out, w.strangers()...)
	for i := range out {
		out[i].fault, out[i].cost.faults = true, 1
	}
	return out
}

// troubled are the passes of an agent in which something happens to one of its calls.
func (w *World) troubled(seed int) []event {
	var (
		out   []event
		plain = w.copy().pass(seed, nil, fault{})
	)
	for at, reply := range plain.replies {
		if at == 0 || reply.call.quiet {
			continue
		}
		kinds := []faultKind{fails}
		if ofGarden(reply.call) {
			kinds = append(kinds, cutOff)
		}
		if reply.call.writes || !ofGarden(reply.call) {
			kinds = append(kinds, unheard)
		}
		for _, kind := range kinds {
			out = append(out, event{
				name: fmt.Sprintf("%s: passes, but call %d (%s) %s", seedNames[seed], at, reply.call.what, kind),
				next: w.after(w.copy().pass(seed, nil, fault{kind, at})),
			})
		}
		if w.slow == nil {
			t := w.copy().pass(seed, nil, fault{stops, at})
			t.world.slow = &slowPass{by: seed, replies: t.replies}
			out = append(out, event{
				name: fmt.Sprintf("%s: passes, and is slow before call %d (%s)", seedNames[seed], at, reply.call.what),
				next: w.after(t),
			})
		}
	}
	return out
}

// losses are faults of what the agents work with.
func (w *World) losses() []event {
	var out []event
	change := func(possible bool, name string, change func(*World)) {
		if possible {
			out = append(out, w.changed(name, change))
		}
	}
	for seed, name := range seedNames {
		change(!w.down[seed] && !w.lost[seed], name+": its API server is lost", func(w *World) { w.down[seed] = true })
		change(w.losable(seed), name+": is lost for good", func(w *World) {
			w.lost[seed], w.down[seed] = true, false
			if w.slow != nil && w.slow.by == seed {
				w.slow = nil
			}
		})
	}
	change(!w.relaysLost, "the relays are lost", func(w *World) { w.relaysLost = true })
	change(!w.unhealthy, "an etcd member is not healthy", func(w *World) { w.unhealthy = true })
	change(!w.skewed, "the versions differ", func(w *World) { w.skewed = true })
	change(!w.gateOpen, "the gate is lost", func(w *World) { w.gateOpen = true })
	return out
}

// losable reports whether the protocol has a way out when the seed is lost for good: one seed only, the destination
// until members of the source leave, the source when the destination's members are a quorum without it. Everything else
// is docs/operations/recovery.md, and no matter of the protocol.
func (w *World) losable(seed int) bool {
	if w.lost != [2]bool{} || !steps.Requested(w.shoot) {
		return false
	}
	conditions := steps.Conditions(w.shoot)
	if seed == to {
		return steps.AbortPossible(w.shoot) && w.voters[from] == members && w.voters[to] < members
	}
	current, _ := steps.Current(conditions)
	return w.voters[to] == members && w.voters[from] < members &&
		(current.Abandonable || current.PointOfNoReturn && steps.Begun(conditions, current))
}

// strangers are writes of others than agents and persons.
func (w *World) strangers() []event {
	var (
		out       []event
		operation = w.shoot.Status.LastOperation
	)
	if operation.State == gardencorev1beta1.LastOperationStateProcessing {
		out = append(out, w.somebody("a gardenlet restarts, and sets the last operation to Aborted",
			write{door: "status", body: []byte(`{"status":{"lastOperation":{"state":"Aborted"}}}`)}))
	}
	if _, _, between := steps.Seeds(w.shoot); !between || !w.gateOpen {
		return out
	}
	if !gate.ReadyForMigration(w.shoot) {
		return append(out, w.somebody("the gardener-controller-manager sets the constraint ReadyForMigration",
			write{door: "status", body: []byte(
				`{"status":{"constraints":[{"type":"ReadyForMigration","status":"True"}]}}`)}))
	}
	if operation.Type != gardencorev1beta1.LastOperationTypeMigrate {
		out = append(out, w.somebody("the gardenlet of the source begins the classic migration",
			write{door: "status", body: []byte(
				`{"status":{"lastOperation":{"type":"Migrate","state":"Processing","progress":0}}}`)}))
	}
	return out
}
