// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"fmt"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/agent"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/test/search"
)

// Model says what may happen.
type Model struct {
	// Faults is how many faults may happen on one way: a call that fails or whose answer is lost, an agent that is slow
	// or killed, a gate that is lost, and the others of the package comment.
	Faults int
	// Requests is how many times a person may ask for something that no state has named.
	Requests int
	// AbortOverdue lets the agents abort by themselves when one of the first steps passes its deadline.
	AbortOverdue bool
	// Memory is how many states are remembered with what follows from them; zero is all. Random schedules meet more
	// states than they meet again.
	Memory int
	// Alter changes what the roles do; nil changes nothing. It is for tests of the search itself.
	Alter func(seeds *Seeds, actions map[steps.Role]migration.Actions)
	// AlterAgent changes what an agent is made of; nil changes nothing. It is for the same.
	AlterAgent func(options *agent.Options)
	// Policy is the policy of the gate; nil is the one that is shipped.
	Policy *Policy

	policy *Policy
	config configv1alpha1.LiveMigrationController
	// shoots has one Shoot for all that are the same, known the events of all states that were looked at.
	shoots map[string]*gardencorev1beta1.Shoot
	known  map[string]*successors
	// gated has what is wrong with the gate, by the Shoot; acting what is wrong with who is at work, by the sample.
	gated, acting map[string]string
}

// World is a state: the Shoot, both seeds, and what is the matter with them. It implements search.World.
type World struct {
	model *Model
	shoot *gardencorev1beta1.Shoot
	// text is all that is in it.
	text string
	view
	// down are the seeds whose API server does not answer, lost those that are lost for good.
	down, lost [2]bool
	// gateOpen reports whether the policy of the gate is not in force.
	gateOpen bool
	// slow is a pass that stands between two calls.
	slow *slowPass
	// spent is what has been spent of the bounds.
	spent cost
	// broken says what must not be.
	broken string
}

// cost is what an event takes of the bounds.
type cost struct{ faults, requests int }

// event is something that may happen.
type event struct {
	name string
	// fault says that no way to an end may rely on it, person that it is what the state names to a person.
	fault, person bool
	cost          cost
	next          *World
}

// successors are the events of a state, each kind worked out when it is first asked for.
type successors struct {
	free, faults, requests []event
	hasFaults, hasRequests bool
}

var _ search.World = &World{}

// Start returns the state in which a search begins: the shoot runs in the first seed, and somebody has just asked for
// its live migration to the second one.
func (m *Model) Start() (*World, error) {
	m.policy = m.Policy
	if m.policy == nil {
		var err error
		if m.policy, err = ShippedPolicy(); err != nil {
			return nil, err
		}
	}
	config := &configv1alpha1.AgentConfiguration{}
	configv1alpha1.SetDefaults(config)
	m.config = config.Controllers.LiveMigration
	m.config.AbortOverdue = &m.AbortOverdue
	m.shoots, m.known, m.gated = map[string]*gardencorev1beta1.Shoot{}, map[string]*successors{}, map[string]string{}
	m.acting = map[string]string{}

	w := &World{model: m, shoot: &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, ResourceVersion: presentVersion, Generation: 7,
			Annotations: map[string]string{steps.AnnotationIntent: "true"},
		},
		Spec: gardencorev1beta1.ShootSpec{SeedName: ptr.To(seedNames[to])},
		Status: gardencorev1beta1.ShootStatus{
			SeedName: ptr.To(seedNames[from]), ObservedGeneration: 6,
			LastOperation: &gardencorev1beta1.LastOperation{
				Type:  gardencorev1beta1.LastOperationTypeReconcile,
				State: gardencorev1beta1.LastOperationStateSucceeded, Progress: 100,
				LastUpdateTime: metav1.NewTime(now),
			},
		},
	}}
	w.running[from], w.voters[from] = all, members
	w.settle()
	return w, nil
}

// shared returns the one Shoot that stands for all that are the same.
func (m *Model) shared(shoot *gardencorev1beta1.Shoot) *gardencorev1beta1.Shoot {
	text := shoot.ResourceVersion + " " + whole(shoot)
	if known, ok := m.shoots[text]; ok {
		return known
	}
	m.shoots[text] = shoot
	return shoot
}

// core returns the state without what has been spent.
func (w *World) core() string {
	text := fmt.Sprintf("%s\n%s\n%v %v %v", w.text, w.view, w.down, w.lost, w.gateOpen)
	if w.slow != nil {
		text += "\n" + w.slow.String()
	}
	return text
}

// Key implements search.World.
func (w *World) Key() string { return fmt.Sprintf("%s\n%v", w.core(), w.spent) }

// Clone implements search.World.
func (w *World) Clone() search.World { return w.copy() }

func (w *World) copy() *World {
	out := *w
	return &out
}

// Violation implements search.World.
func (w *World) Violation() string { return w.broken }

// Asks implements search.World. What a person is asked for is an event of its own here (persons.go), so that the
// search also sees that it helps.
func (*World) Asks() string { return "" }

// The ends of a migration.
const (
	// GoalSucceeded is a shoot that was handed over to the destination.
	GoalSucceeded = "succeeded"
	// GoalStayed is a shoot that stays in the source after an abort.
	GoalStayed = "stayed"
	// GoalClassic is a shoot that was left to the classic migration before anything was done, or after an abort.
	GoalClassic = "classic"
)

// Goal implements search.World.
func (w *World) Goal() string {
	_, _, between := steps.Seeds(w.shoot)
	switch {
	case w.slow != nil:
	case between && !steps.Intended(w.shoot) && gate.Released(w.shoot):
		return GoalClassic
	case !between && *w.shoot.Status.SeedName == seedNames[from]:
		return GoalStayed
	case !between && w.shoot.Annotations["gardener.cloud/operation"] == "reconcile":
		return GoalSucceeded
	}
	return ""
}

// Actions implements search.World.
func (w *World) Actions() []search.Action {
	events := w.events()
	out := make([]search.Action, 0, len(events))
	for _, e := range events {
		out = append(out, search.Action{Name: e.name, Fault: e.fault})
	}
	return out
}

// Do implements search.World.
func (w *World) Do(name string) error {
	events := w.events()
	i := slices.IndexFunc(events, func(e event) bool { return e.name == name })
	if i < 0 {
		return errors.New("nothing of that name can happen now")
	}
	spent := w.spent
	*w = *events[i].next
	w.spent = cost{spent.faults + events[i].cost.faults, spent.requests + events[i].cost.requests}
	return nil
}

// events returns all that may happen within the bounds.
func (w *World) events() []event {
	text := w.core()
	known := w.model.known[text]
	if known == nil {
		if len(w.model.known) > w.model.Memory && w.model.Memory > 0 {
			clear(w.model.known)
		}
		known = &successors{}
		w.model.known[text] = known
		known.free = w.unspent().freeEvents()
	}
	out := slices.Clone(known.free)
	if w.spent.faults < w.model.Faults {
		if !known.hasFaults {
			known.hasFaults, known.faults = true, w.unspent().faultEvents()
		}
		out = append(out, known.faults...)
	}
	if w.spent.requests < w.model.Requests {
		if !known.hasRequests {
			known.hasRequests, known.requests = true, w.unspent().requestEvents()
		}
		out = append(out, known.requests...)
	}
	return out
}

func (w *World) unspent() *World {
	out := w.copy()
	out.spent, out.broken = cost{}, ""
	return out
}

// after completes an event: the world that it leads to is judged and brought into its plain form.
func (w *World) after(t *turn) *World {
	out := t.world
	out.settle()
	if out.broken = t.broken; out.broken == "" {
		out.broken = out.wrong()
	}
	return out
}

// changed returns an event that changes the world and asks nobody.
func (w *World) changed(name string, change func(*World)) event {
	next := w.copy()
	change(next)
	return event{name: name, next: w.after(&turn{world: next, by: nobody})}
}

// String returns the state for people.
func (w *World) String() string {
	text := canonical(w.shoot) + "\n" + w.view.words()
	for i, name := range seedNames {
		if w.lost[i] {
			text += "\n" + name + " is lost"
		}
		if w.down[i] {
			text += "\nthe API server of " + name + " does not answer"
		}
	}
	if w.gateOpen {
		text += "\nthe gate is not in force"
	}
	if w.slow != nil {
		text += "\nthe agent of " + seedNames[w.slow.by] + " stands before call " + fmt.Sprint(len(w.slow.replies))
	}
	return text
}
