// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// call is what somebody asks of the garden or of a seed.
type call struct {
	what string
	// writes reports whether it changes the Shoot.
	writes bool
	// quiet reports whether nothing happens between this call and the one before: what an agent looks at in its own
	// seed counts as seen at the moment of the next call.
	quiet bool
}

// reply is the answer.
type reply struct {
	call  call
	shoot *gardencorev1beta1.Shoot
	seed  *gardencorev1beta1.Seed
	view  *view
	err   error
}

// String returns all that decisions depend on in the answer.
func (r reply) String() string {
	text := r.call.what
	if r.shoot != nil {
		text += " " + r.shoot.ResourceVersion + " " + whole(r.shoot)
	}
	if r.view != nil {
		text += " " + r.view.String()
	}
	if r.err != nil {
		text += " " + string(apierrors.ReasonForError(r.err)) + "!"
	}
	return text
}

// slowPass is a pass of an agent that stands between two calls, while others act. The agent remembers the answers so
// far; to continue, the pass is made once more, and gets these answers again, until it comes to the next call.
type slowPass struct {
	by      int
	replies []reply
}

func (s *slowPass) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "slow %d", s.by)
	for _, reply := range s.replies {
		b.WriteString("\n  " + reply.String())
	}
	return b.String()
}

// fault is what happens to one call of a pass.
type fault struct {
	kind faultKind
	// at is the index of the call.
	at int
}

type faultKind string

const (
	// stops is an agent that does not come to the call: it is slow, or killed.
	stops faultKind = "stops"
	// fails is a call without effect and with an error.
	fails faultKind = "fails"
	// unheard is a call with its effect, whose answer is lost.
	unheard faultKind = "is not heard of"
	// cutOff is an agent that reaches the garden no more from this call on, but its seed.
	cutOff faultKind = "and all after it fail"
)

var (
	errStopped = fmt.Errorf("the agent has stopped: %w", context.Canceled)
	errGarden  = errors.New("the garden does not answer")
	errRelays  = errors.New("the members of the other seed do not answer")
	errSeed    = errors.New("the API server of the seed does not answer")
)

// turn is what one agent, or one person, does to a world.
type turn struct {
	world *World
	// by is the index of the agent's seed, or nobody.
	by   int
	role steps.Role

	remembered []reply
	fault      fault
	cancel     context.CancelFunc

	replies []reply
	stopped bool
	// broken says what the turn has done that must not be.
	broken string
}

// nobody stands for those who are no agent.
const nobody = -1

func (t *turn) violate(format string, args ...any) {
	if t.broken == "" {
		t.broken = fmt.Sprintf(format, args...)
	}
}

// call makes one call, unless the pass has made it before.
func (t *turn) call(asked call, live func() reply) reply {
	at := len(t.replies)
	if at < len(t.remembered) {
		if was := t.remembered[at]; was.call != asked {
			panic(fmt.Sprintf("the pass is not repeatable: call %d was %q and is %q", at, was.call.what, asked.what))
		}
		t.replies = append(t.replies, t.remembered[at])
		return t.remembered[at]
	}
	if t.stopped {
		return reply{err: errStopped}
	}
	answer := reply{}
	switch {
	case t.fault.kind == stops && t.fault.at == at:
		t.stopped = true
		t.cancel()
		return reply{err: errStopped}
	case t.fault.kind == fails && t.fault.at == at, t.fault.kind == cutOff && t.fault.at <= at && ofGarden(asked):
		answer.err = errGarden
	case t.fault.kind == unheard && t.fault.at == at:
		live()
		answer.err = errGarden
	default:
		answer = live()
	}
	answer.call = asked
	t.replies = append(t.replies, answer)
	return answer
}

func ofGarden(asked call) bool { return !strings.HasPrefix(asked.what, inSeed) }

// inSeed is how the names of calls begin that do not go to the garden.
const inSeed = "seed: "

// look returns what the agent sees of both seeds, in its own API server and in the member lists of the etcds.
func (t *turn) look() (view, error) {
	answer := t.call(call{what: inSeed + "looks", quiet: true}, func() reply {
		if t.world.down[t.by] {
			return reply{err: errSeed}
		}
		seen := t.world.view
		return reply{view: &seen}
	})
	if answer.err != nil {
		return view{}, answer.err
	}
	return *answer.view, nil
}

// do changes something in the seeds.
func (t *turn) do(what string, change func(*view)) error {
	return t.call(call{what: inSeed + what}, func() reply {
		if t.world.down[t.by] {
			return reply{err: errSeed}
		}
		change(&t.world.view)
		return reply{}
	}).err
}

// change changes the members of the etcds. That needs the way between the seeds: without relays, or when the other seed
// was abandoned, no member there can be asked.
func (t *turn) change(what string, change func(*view)) error {
	return t.call(call{what: inSeed + what}, func() reply {
		switch w := t.world; {
		case w.down[t.by]:
			return reply{err: errSeed}
		case w.relaysLost || w.cut != [2]bool{}:
			return reply{err: errRelays}
		}
		change(&t.world.view)
		return reply{}
	}).err
}

// proved reports whether the gate has been proved in this pass.
func (t *turn) proved() bool {
	for _, reply := range t.replies {
		if reply.call.what == "proves the gate" && apierrors.IsForbidden(reply.err) {
			return true
		}
	}
	return false
}

// key is that of the Shoot.
var key = client.ObjectKey{Namespace: "garden-demo", Name: "live"}

// pass lets the agent of the seed make a pass, or continue one.
func (w *World) pass(by int, remembered []reply, f fault) *turn {
	ctx, cancel := context.WithCancel(logf.IntoContext(context.Background(), logr.Discard()))
	defer cancel()
	t := &turn{world: w, by: by, remembered: remembered, fault: f, cancel: cancel}
	t.role, _ = steps.RoleOf(w.shoot, seedNames[by])
	if len(remembered) > 0 {
		t.role, _ = steps.RoleOf(remembered[0].shoot, seedNames[by])
	}
	api := &garden{turn: t}
	options := agent.Options{
		GardenClient: api, GardenAPIReader: api, Recorder: silence{}, Clock: testclock.NewFakeClock(now),
		SeedName: seedNames[by], Config: w.model.config, Actions: t.actions(), Gate: gate.New(api, api),
		Preflight: guards{t},
	}
	if w.model.AlterAgent != nil {
		w.model.AlterAgent(&options)
	}
	reconciler, err := agent.New(options)
	if err != nil {
		panic(err)
	}
	// What a pass returns is for the queue, which lets the agent look again in any case.
	_, _ = reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: key})
	return t
}

// silence records no events: nothing is decided by them.
type silence struct{}

// Eventf implements events.EventRecorder.
//
//nolint:revive // The interface's signature.
func (silence) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// guards are the checks before and in the middle of a step. The versions are judged by the real check. Of all others
// one stands for them, the health of the etcds.
type guards struct{ turn *turn }

// Before implements agent.Preflight.
func (g guards) Before(
	_ context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step,
) (steps.Reason, string, []string) {
	seen, err := g.turn.look()
	if err != nil {
		return steps.ReasonPrerequisitesUnknown, err.Error(), nil
	}
	if seen.unhealthy && step.GuardOf(steps.EtcdHealth).EffectOn(shoot) == steps.Holds {
		return steps.ReasonEtcdNotHealthy, "a member is not healthy", nil
	}
	reason, message := preflight.Verdict(g.versions(preflight.EvaluateStep, shoot, step))
	return reason, message, nil
}

// During implements agent.Preflight.
func (g guards) During(_ context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step) (steps.Reason, string) {
	return preflight.Verdict(g.versions(preflight.EvaluateDuring, shoot, step))
}

// Rival implements agent.Preflight.
func (guards) Rival(context.Context, *gardencorev1beta1.Shoot) string { return "" }

// versions judges the versions of the gardenlets as they are now.
func (g guards) versions(
	evaluate func(preflight.Facts, steps.Step) []preflight.Finding, shoot *gardencorev1beta1.Shoot, step steps.Step,
) []preflight.Finding {
	answer := g.turn.call(call{what: "reads the versions", quiet: true}, func() reply {
		return reply{view: &view{skewed: g.turn.world.skewed}}
	})
	if answer.err != nil || !answer.view.skewed {
		return nil
	}
	facts := preflight.Facts{
		Shoot: shoot, OwnSeed: seedNames[g.turn.by], Version: skewedVersions[g.turn.by],
		Source:      preflight.SeedView{Name: seedNames[0], Seed: seedObject(0, skewedVersions[0])},
		Destination: preflight.SeedView{Name: seedNames[1], Seed: seedObject(1, skewedVersions[1])},
	}
	return slices.DeleteFunc(evaluate(facts, step), func(finding preflight.Finding) bool {
		return finding.Name != steps.GardenletVersion
	})
}
