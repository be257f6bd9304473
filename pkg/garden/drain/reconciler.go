// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// soon is when to look again after somebody else has written what the controller wanted to write.
const soon = time.Second

// Reconciler looks at the whole garden and does what pkg/migration/drain decides.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// APIReader reads without a cache.
	APIReader client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Clock is the clock.
	Clock clock.Clock
	// Namespace is the garden namespace: the tables of the drains and the region distances are in it.
	Namespace string
	// Strategy is the strategy of the scheduler.
	Strategy string
	// Period is how long what was found out about a shoot that does not move is taken for true.
	Period time.Duration
	// Budget is what must not be exceeded.
	Budget drain.Budget

	begun  bool
	ahead  ahead
	memory map[types.UID]remembered
	// started is how many moves this process has started.
	started int
	// measured are the seeds that there are metrics of.
	measured map[string]bool
}

// remembered is an assessment and what it was made from.
type remembered struct {
	version  string
	fallback bool
	draining string
	at       time.Time
	// started is how many moves had been started then.
	started    int
	assessment drain.Assessment
}

// look is what one pass works with.
type look struct {
	seeds    []gardencorev1beta1.Seed
	shoots   []gardencorev1beta1.Shoot
	index    map[drain.Key]int
	draining string
	assessor *assessor
	// again tells that somebody else has written meanwhile.
	again bool
}

// Reconcile makes one pass. The request says nothing.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	l, err := r.look(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}

	var errs []error
	errs = append(errs, r.markSeeds(ctx, l), r.recordEnds(ctx, l))
	plan := r.plan(ctx, l)
	// A start changes which destination is the best one for those after it, so that the rest of the plan may not hold.
	for range r.rounds() {
		changed := r.reconsider(l, plan)
		if len(plan.Starts) == 0 && !changed {
			break
		}
		err := r.start(ctx, l, plan.Starts)
		errs = append(errs, err)
		plan = r.plan(ctx, l)
		if err != nil || l.again {
			break
		}
	}
	// What could not be started although it was its turn is looked at soon.
	l.again = l.again || len(plan.Starts) > 0
	errs = append(errs, r.publish(ctx, l, plan))
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case l.again:
		return reconcile.Result{RequeueAfter: soon}, nil
	case len(plan.Seeds) == 0:
		return reconcile.Result{}, nil
	}
	after := r.Period
	if !plan.LookAgain.IsZero() {
		after = max(min(after, plan.LookAgain.Sub(r.Clock.Now())), time.Millisecond)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// rounds bounds how often a pass plans. For each start there may be one round in which another destination turns out to
// be better, and one in which what waits for a destination is reconsidered.
func (r *Reconciler) rounds() int { return 3 * max(r.Budget.Total, 1) }

// reconsider forgets what was found out about shoots that wait for their destination, if moves were started since: by
// now another seed may be the better choice. It returns whether there are any.
func (r *Reconciler) reconsider(l *look, plan drain.Plan) bool {
	found := false
	for _, seed := range plan.Seeds {
		for _, entry := range seed.Entries {
			if entry.Reason != drain.ReasonDestinationBudget {
				continue
			}
			uid := l.shoots[l.index[entry.Key]].UID
			if known, ok := r.memory[uid]; ok && known.started != r.started {
				delete(r.memory, uid)
				found = true
			}
		}
	}
	return found
}

// look reads Seeds and Shoots. Only the slice of Shoots belongs to the caller; their contents are shared with the cache
// and must not be changed.
func (r *Reconciler) look(ctx context.Context) (*look, error) {
	seeds := &gardencorev1beta1.SeedList{}
	if err := r.Client.List(ctx, seeds); err != nil {
		return nil, fmt.Errorf("failed to list the Seeds: %w", err)
	}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	shoots := &gardencorev1beta1.ShootList{}
	if err := r.Client.List(ctx, shoots, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("failed to list the Shoots: %w", err)
	}
	r.ahead.merge(shoots.Items)

	l := &look{seeds: seeds.Items, shoots: shoots.Items, index: make(map[drain.Key]int, len(shoots.Items))}
	for i := range l.shoots {
		l.index[drain.Key{Namespace: l.shoots[i].Namespace, Name: l.shoots[i].Name}] = i
	}
	l.assessor = &assessor{client: r.Client, namespace: r.Namespace, strategy: r.Strategy, seeds: l.seeds,
		shoots: l.shoots}
	var draining []string
	for i := range l.seeds {
		if drain.Requested(&l.seeds[i]) {
			draining = append(draining, l.seeds[i].Name)
		}
	}
	slices.Sort(draining)
	l.draining = strings.Join(draining, ",")
	return l, nil
}

// begin reads once, past the cache, what whoever led before has started: the cache may be older.
func (r *Reconciler) begin(ctx context.Context) error {
	if r.begun {
		return nil
	}
	shoots := &gardencorev1beta1.ShootList{}
	if err := r.APIReader.List(ctx, shoots); err != nil {
		return fmt.Errorf("failed to list the Shoots: %w", err)
	}
	r.ahead, r.memory, r.measured = ahead{}, map[types.UID]remembered{}, map[string]bool{}
	for i := range shoots.Items {
		r.ahead.keep(&shoots.Items[i])
	}
	r.begun = true
	return nil
}

// plan lets pkg/migration/drain decide.
func (r *Reconciler) plan(ctx context.Context, l *look) drain.Plan {
	world := drain.World{Now: r.Clock.Now(), Budget: r.Budget}
	fallback := map[string]bool{}
	for i := range l.seeds {
		seed := drain.SeedOf(&l.seeds[i])
		fallback[seed.Name] = seed.Fallback
		world.Seeds = append(world.Seeds, seed)
	}
	world.Shoots = make([]drain.Shoot, 0, len(l.shoots))
	for i := range l.shoots {
		world.Shoots = append(world.Shoots, drain.ShootOf(&l.shoots[i]))
	}
	world.Assess = func(shoot drain.Shoot) drain.Assessment {
		return r.recall(ctx, l, &l.shoots[l.index[shoot.Key]], fallback[shoot.Status])
	}
	return drain.Make(world)
}

// recall returns what was found out about the shoot not long ago, or finds it out.
func (r *Reconciler) recall(
	ctx context.Context, l *look, shoot *gardencorev1beta1.Shoot, fallback bool,
) drain.Assessment {
	now := r.Clock.Now()
	known, ok := r.memory[shoot.UID]
	if !ok || known.version != shoot.ResourceVersion || known.fallback != fallback || known.draining != l.draining ||
		now.Sub(known.at) >= r.Period {
		return r.assess(ctx, l, shoot, fallback)
	}
	known.assessment.InMaintenanceWindow = inMaintenanceWindow(shoot, now)
	return known.assessment
}

// assess finds out whether and where to the shoot can move.
func (r *Reconciler) assess(
	ctx context.Context, l *look, shoot *gardencorev1beta1.Shoot, fallback bool,
) drain.Assessment {
	now := r.Clock.Now()
	assessment := l.assessor.assess(ctx, shoot, fallback)
	assessment.InMaintenanceWindow = inMaintenanceWindow(shoot, now)
	r.memory[shoot.UID] = remembered{version: shoot.ResourceVersion, fallback: fallback, draining: l.draining, at: now,
		started: r.started, assessment: assessment}
	return assessment
}

func inMaintenanceWindow(shoot *gardencorev1beta1.Shoot, now time.Time) bool {
	return gardenerutils.EffectiveShootMaintenanceTimeWindow(shoot).Contains(now)
}

// failed returns what is to be done about an error: nothing more than another look if somebody else has written
// meanwhile.
func (l *look) failed(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		l.again = true
		return nil
	}
	return err
}

// forget drops what is remembered of shoots that do not leave any more.
func (r *Reconciler) forget(plan drain.Plan, l *look) {
	current := make(map[types.UID]bool, len(r.memory))
	for _, seed := range plan.Seeds {
		for _, entry := range seed.Entries {
			if i, ok := l.index[entry.Key]; ok {
				current[l.shoots[i].UID] = true
			}
		}
	}
	for uid := range r.memory {
		if !current[uid] {
			delete(r.memory, uid)
		}
	}
}

func (r *Reconciler) log(ctx context.Context) func(string, ...any) {
	return logf.FromContext(ctx).Info
}
