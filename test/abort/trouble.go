// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gardener/gardener/pkg/utils/retry"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

const (
	// healTimeout bounds an attempt to heal, and healTimeouts how long it is tried.
	healTimeout  = 30 * time.Second
	healTimeouts = 3 * time.Minute
	healInterval = 2 * time.Second
)

// unsuited are the families of faults that cannot strike beside an abort, and why.
var unsuited = map[string]string{"apiserver-delete": replaces, "kube-controller-manager-kill": replaces}

const replaces = "the pod that follows is none of those from before the migration, with which the comparison begins"

// Suits returns an error that says why the fault cannot strike at the moment. No fault suits every moment.
func Suits(f fault.Fault, moment Moment) error {
	if f == nil {
		return nil
	}
	if reason, found := unsuited[f.Family()]; found {
		return fmt.Errorf("%s cannot strike while a migration is aborted: %s", f.Name(), reason)
	}
	if fault.HidesGarden(f) {
		return fmt.Errorf("%s cannot strike while a migration is aborted: the abort is asked for in the garden, which "+
			"the fault stops", f.Name())
	}
	step, ok := steps.Get(moment.Step)
	if !ok {
		return fmt.Errorf("there is no step %q", moment.Step)
	}
	if !slices.ContainsFunc(fault.Moments(), func(at fault.Moment) bool { return f.Applies(step, at) }) {
		return fmt.Errorf("%s has nothing to hit %s (%s): choose other moments", f.Name(), moment.Name, moment.Step)
	}
	return nil
}

// trouble is a fault in its course. A nil one is none.
type trouble struct {
	fault   fault.Fault
	targets *fault.Targets

	// over is closed when the fault is healed, or cannot be. It is set when the fault has struck.
	over chan struct{}
	stop func()
	err  error
}

// prepare connects to what the fault hits, and ends what an earlier run that was killed may have left in force.
func (r *run) prepare(ctx context.Context, f fault.Fault) (*trouble, error) {
	if f == nil {
		return nil, nil
	}
	shoot, err := r.Get(ctx)
	if err != nil {
		return nil, err
	}
	targets := fault.NewTargets(r.Landscape, r.Say)
	if err := targets.Enter(r.Landscape, r.Garden.Client, shoot); err != nil {
		return nil, err
	}
	return &trouble{fault: f, targets: targets}, targets.Clear(ctx)
}

func (t *trouble) name() string {
	if t == nil {
		return ""
	}
	return t.fault.Name()
}

// strike lets the fault strike. It is healed when its time is over, or at the end.
func (t *trouble) strike(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.targets.Log("injecting %s", t.fault.Name())
	injectCtx, cancel := context.WithTimeout(ctx, healTimeout)
	defer cancel()
	err := t.fault.Inject(injectCtx, t.targets)
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		// It may have struck in part.
		return errors.Join(fmt.Errorf("failed to inject %s: %w", t.fault.Name(), err), t.heal(ctx))
	}

	ended := make(chan struct{})
	t.over, t.stop = make(chan struct{}), sync.OnceFunc(func() { close(ended) })
	go func() {
		defer close(t.over)
		select {
		case <-time.After(t.fault.Course().Lasts):
		case <-ended:
		}
		t.err = t.heal(ctx)
	}()
	return nil
}

// end waits until the fault is over. One that lasts through a step is over now.
func (t *trouble) end(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if t.fault.Course().ThroughStep {
		t.stop()
	}
	select {
	case <-t.over:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancel ends the fault now, if it is not over, and waits for that.
func (t *trouble) cancel() {
	if t == nil {
		return
	}
	t.stop()
	<-t.over
}

// heal ends the fault. It tries again for a while: what it needs may just be recovering.
func (t *trouble) heal(ctx context.Context) error {
	if err := retry.UntilTimeout(ctx, healInterval, healTimeouts, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, healTimeout)
		defer cancel()
		if err := t.fault.Heal(ctx, t.targets); err != nil {
			t.targets.Log("failed to heal %s: %v", t.fault.Name(), err)
			return retry.MinorError(err)
		}
		return retry.Ok()
	}); err != nil {
		return fmt.Errorf("failed to heal %s: %w", t.fault.Name(), err)
	}
	if t.fault.Course().Lasts > 0 {
		t.targets.Log("healed %s", t.fault.Name())
	}
	return nil
}
