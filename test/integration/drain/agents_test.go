// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/drain/moves"
	"github.com/livecpm/livecpm/test/simulation"
)

// agents stand in for those of all seeds: they set the conditions of live migrations and hand over, with a write for
// each condition. They look at what the watch tells, so that they cost next to nothing beside what is measured. And
// they watch over the budget with the eyes of an outsider.
type agents struct {
	garden client.WithWatch
	// prefix is what the names of the seeds begin with that they look after.
	prefix string

	lock sync.Mutex
	// held are shoots that do not continue, aborting are those that are aborted.
	held, aborting map[string]bool
	allHeld        bool
	// restoreHeld lets no destination of a classic move restore the shoot.
	restoreHeld bool
	moves       *moves.Moves
	// moving are the shoots on their way as they were last seen, stepped is when each made its last step, and pace the
	// least time between two steps.
	moving  map[string]*gardencorev1beta1.Shoot
	stepped map[string]time.Time
	pace    time.Duration
	errs    []error
}

// startAgents starts agents for the seeds with the prefix, and returns them with a function that ends them.
func startAgents(config *rest.Config, prefix string) (*agents, func()) {
	GinkgoHelper()
	watching, err := client.NewWithWatch(config, client.Options{Scheme: kubernetes.GardenScheme})
	Expect(err).NotTo(HaveOccurred())
	a := &agents{
		garden: watching, prefix: prefix, held: map[string]bool{}, aborting: map[string]bool{}, moves: moves.New(),
		moving: map[string]*gardencorev1beta1.Shoot{}, stepped: map[string]time.Time{},
	}
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { moves.Watch(running, watching, a.see) })
	wait.Go(func() { a.work(running) })
	return a, func() {
		cancel()
		wait.Wait()
	}
}

// see takes account of a Shoot.
func (a *agents) see(event watch.EventType, shoot *gardencorev1beta1.Shoot) {
	source, _, moving := steps.Seeds(shoot)
	if moving && !strings.HasPrefix(source, a.prefix) {
		return
	}
	a.moves.See(event, shoot)
	moving = moving || handedOver(shoot) && strings.HasPrefix(*shoot.Status.SeedName, a.prefix)
	a.lock.Lock()
	defer a.lock.Unlock()
	if moving {
		a.moving[shoot.Name] = shoot
	} else {
		delete(a.moving, shoot.Name)
	}
}

func (a *agents) work(ctx context.Context) {
	for ctx.Err() == nil {
		for _, shoot := range a.due() {
			if err := a.step(ctx, shoot); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
				a.lock.Lock()
				a.errs = append(a.errs, err)
				a.lock.Unlock()
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// due returns the shoots whose next step may be made.
func (a *agents) due() []*gardencorev1beta1.Shoot {
	a.lock.Lock()
	defer a.lock.Unlock()
	var out []*gardencorev1beta1.Shoot
	for name, shoot := range a.moving {
		if time.Since(a.stepped[name]) >= a.pace {
			a.stepped[name] = time.Now()
			out = append(out, shoot.DeepCopy())
		}
	}
	return out
}

// step makes the next step of a migration.
func (a *agents) step(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	a.lock.Lock()
	held, abort, restoreHeld := a.allHeld || a.held[shoot.Name], a.aborting[shoot.Name], a.restoreHeld
	a.lock.Unlock()

	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	conditions := steps.Conditions(shoot)
	switch {
	case handedOver(shoot):
		if restoreHeld {
			return nil
		}
		shoot.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeRestore
	case !steps.Intended(shoot):
		// Classic: the gardenlets are done with it at once, first that of the source, then that of the destination.
		if held {
			return nil
		}
		simulation.Arrive(shoot, time.Now())
		shoot.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeMigrate
	case steps.Aborted(conditions) && abort:
		return nil
	case abort && steps.Initialized(conditions):
		aborted(shoot)
	case held && steps.Initialized(conditions):
		return nil
	default:
		if err := simulation.Advance(clock.RealClock{}, shoot); err != nil {
			return err
		}
	}
	return a.garden.Status().Patch(ctx, shoot, patch)
}

// handedOver reports whether the source is done with a classic move, and the destination is not.
func handedOver(shoot *gardencorev1beta1.Shoot) bool {
	_, _, moving := steps.Seeds(shoot)
	operation := shoot.Status.LastOperation
	return !moving && operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeMigrate
}

// aborted has the abort completed at once.
func aborted(shoot *gardencorev1beta1.Shoot) {
	now := metav1.Now()
	shoot.Status.LiveMigration.Conditions = v1beta1helper.MergeConditions(shoot.Status.LiveMigration.Conditions,
		gardencorev1beta1.Condition{
			Type: steps.First().Condition, Status: gardencorev1beta1.ConditionFalse,
			Reason: string(steps.ReasonAborted), Message: "simulated", LastTransitionTime: now, LastUpdateTime: now,
		})
}

func (a *agents) slowDown(pace time.Duration) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.pace = pace
}

func (a *agents) hold(all bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.allHeld = all
}

func (a *agents) holdRestore(hold bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.restoreHeld = hold
}

func (a *agents) abort(names ...string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.aborting = map[string]bool{}
	for _, name := range names {
		a.aborting[name] = true
	}
}

func (a *agents) peak() map[string]int { return a.moves.Most() }

func (a *agents) starts() map[string]int { return a.moves.Starts() }

func (a *agents) errors() error {
	a.lock.Lock()
	defer a.lock.Unlock()
	if len(a.errs) > 0 {
		return fmt.Errorf("%d errors, the first: %w", len(a.errs), a.errs[0])
	}
	return nil
}
