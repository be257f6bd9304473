// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	familyAgentKillAgain = "agent-kill-again"
	familyRelayKillAgain = "relay-kill-again"

	// relayAgain is longer than a relay needs to be ready after its pod was replaced.
	relayAgain = 20 * time.Second
	// agentAgain leaves the other agent half of the time: it becomes the leader when the lease has ended, after 15 s.
	agentAgain = 40 * time.Second
	// strikeTimeout bounds each of the strikes.
	strikeTimeout = 15 * time.Second
)

// again lets a momentary fault strike again and again until it is healed. Nothing is left of it then, and it ends with
// the process that has injected it.
type again struct {
	fault

	once  Fault
	every time.Duration

	mu     sync.Mutex
	struck int
	end    context.CancelFunc
	ended  chan struct{}
}

// Applies implements Fault. What comes back strikes at the moments that follow as well, and has none of its own. Steps
// that are over before it comes back are left out.
func (f *again) Applies(step steps.Step, moment Moment) bool {
	_, late := moment.Reason()
	return !late && step.Expected > f.every && f.fault.Applies(step, moment)
}

// Inject implements Fault: the first strike is that of the fault itself.
func (f *again) Inject(ctx context.Context, targets *Targets) error {
	if err := f.once.Inject(ctx, targets); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil {
		return fmt.Errorf("%s is in force already", f.Name())
	}
	// It stays in force when the injection is over.
	until, end := context.WithTimeout(context.WithoutCancel(ctx), f.course.Lasts)
	f.struck, f.end, f.ended = 1, end, make(chan struct{})
	// What it proves is its own: others prove at the same time.
	own := *targets
	own.proofs = nil
	go f.strike(until, &own, f.ended)
	return nil
}

// strike repeats the fault until it is healed. One that finds nothing to hit has not struck: what was hit last time may
// not be back yet.
func (f *again) strike(ctx context.Context, targets *Targets, ended chan<- struct{}) {
	defer close(ended)
	ticker := time.NewTicker(f.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		one, cancel := context.WithTimeout(ctx, strikeTimeout)
		err := f.once.Inject(one, targets)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			targets.Log("%s has not struck again: %v", f.Name(), err)
			continue
		}
		f.mu.Lock()
		f.struck++
		f.mu.Unlock()
	}
}

// InForce implements Fleeting: a fault that has not come back when its step is over was over before its time.
func (f *again) InForce(context.Context, *Targets) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck > 1, nil
}

// Witness implements Witnessed.
func (f *again) Witness(_ context.Context, targets *Targets) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.struck > 1 {
		targets.Prove("it struck %d times", f.struck)
	}
	return nil
}

// Heal implements Fault: nothing is hit any more when it returns.
func (f *again) Heal(ctx context.Context, targets *Targets) error {
	f.mu.Lock()
	end, ended := f.end, f.ended
	f.mu.Unlock()
	if end != nil {
		end()
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("%s still strikes: %w", f.Name(), context.Cause(ctx))
		}
		f.mu.Lock()
		f.end = nil
		f.mu.Unlock()
	}
	return f.once.Heal(ctx, targets)
}

// killsAgain kill for the rest of the step what takes over for what was killed: the agents that lead, and the relay of
// the first member. They do without whatever needs one agent, or one connection, from the beginning of the step to its
// end.
func killsAgain() []Fault {
	course := Course{Lasts: maxLatency, ThroughStep: true}
	agents := fault{name: familyAgentKillAgain + "-both", family: familyAgentKillAgain, span: whole, course: course}
	faults := []Fault{&again{fault: agents, once: &kill{agents, leadingAgents(sides...)}, every: agentAgain}}
	for _, role := range sides {
		relay := fault{name: familyRelayKillAgain + "-" + string(role), family: familyRelayKillAgain,
			span: relaySpans[role], except: relayExcept[role], course: course}
		faults = append(faults, &again{fault: relay, once: &kill{relay, firstRelay(role)}, every: relayAgain})
	}
	return faults
}
