// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/preflight/placement"
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
	// Period is how long an assessment of a shoot that does not move is used before it is made again.
	Period time.Duration
	// Budget is what must not be exceeded.
	Budget drain.Budget
	// Notices say how moves are announced.
	Notices Notices

	memory memory
}

// look is what one pass works with.
type look struct {
	seeds  []gardencorev1beta1.Seed
	shoots []gardencorev1beta1.Shoot
	index  map[drain.Key]int
	// draining are the names of the seeds that are drained.
	draining string
	finder   *placement.Finder
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
		if len(plan.Starts) == 0 && len(plan.Announcements) == 0 && !changed {
			break
		}
		err := errors.Join(r.announce(ctx, l, plan.Announcements), r.start(ctx, l, plan.Starts))
		errs = append(errs, err)
		plan = r.plan(ctx, l)
		if err != nil || l.again {
			break
		}
	}
	// What could not be started or announced although it was its turn is looked at soon.
	l.again = l.again || len(plan.Starts) > 0 || len(plan.Announcements) > 0
	errs = append(errs, r.measure(ctx, l, plan.Measure), r.publish(ctx, l, plan))
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
			if known, ok := r.memory.assessments[uid]; ok && known.started != r.memory.started {
				delete(r.memory.assessments, uid)
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
	r.memory.ahead.merge(shoots.Items)

	l := &look{seeds: seeds.Items, shoots: shoots.Items, index: make(map[drain.Key]int, len(shoots.Items))}
	permits := make(map[string]drain.Permits, len(seeds.Items))
	for i := range l.shoots {
		l.index[drain.Key{Namespace: l.shoots[i].Namespace, Name: l.shoots[i].Name}] = i
	}
	var draining []string
	for i := range l.seeds {
		seed := drain.SeedOf(&l.seeds[i])
		permits[seed.Name] = seed.Permits
		if seed.Draining {
			draining = append(draining, seed.Name)
		}
	}
	slices.Sort(draining)
	l.draining = strings.Join(draining, ",")
	l.finder = &placement.Finder{Client: r.Client, Namespace: r.Namespace, Strategy: r.Strategy, Now: r.Clock.Now(),
		Seeds: l.seeds, Shoots: l.shoots, Permits: permits}
	return l, nil
}

// begin reads once, past the cache, what whoever led before has started: the cache may be older.
func (r *Reconciler) begin(ctx context.Context) error {
	if r.memory.begun {
		return nil
	}
	shoots := &gardencorev1beta1.ShootList{}
	if err := r.APIReader.List(ctx, shoots); err != nil {
		return fmt.Errorf("failed to list the Shoots: %w", err)
	}
	r.memory = newMemory()
	for i := range shoots.Items {
		r.memory.ahead.keep(&shoots.Items[i])
	}
	r.memory.begun = true
	return nil
}

// plan lets pkg/migration/drain decide.
func (r *Reconciler) plan(ctx context.Context, l *look) drain.Plan {
	garden := drain.Garden{Now: r.Clock.Now(), Budget: r.Budget, Notice: r.notice(),
		Shoots: make([]drain.Shoot, 0, len(l.shoots))}
	for i := range l.seeds {
		garden.Seeds = append(garden.Seeds, drain.SeedOf(&l.seeds[i]))
	}
	for i := range l.shoots {
		garden.Shoots = append(garden.Shoots, drain.ShootOf(&l.shoots[i]))
	}
	garden.Assess = func(shoot drain.Shoot) drain.Assessment {
		return r.recall(ctx, l, &l.shoots[l.index[shoot.Key]])
	}
	return drain.Make(garden)
}

// recall returns what was found out about the shoot not long ago, or finds it out.
func (r *Reconciler) recall(ctx context.Context, l *look, shoot *gardencorev1beta1.Shoot) drain.Assessment {
	now := r.Clock.Now()
	known, ok := r.memory.assessments[shoot.UID]
	if !ok || known.version != shoot.ResourceVersion || known.permits != l.finder.PermitsOf(shoot) ||
		known.draining != l.draining || now.Sub(known.at) >= r.Period {
		return r.assess(ctx, l, shoot)
	}
	return placement.InWindow(known.assessment, shoot, now)
}

// assess finds out whether and where to the shoot can move.
func (r *Reconciler) assess(ctx context.Context, l *look, shoot *gardencorev1beta1.Shoot) drain.Assessment {
	now := r.Clock.Now()
	assessment := placement.InWindow(l.finder.Find(ctx, shoot), shoot, now)
	r.memory.assessments[shoot.UID] = remembered{
		version: shoot.ResourceVersion, permits: l.finder.PermitsOf(shoot), draining: l.draining, at: now,
		started: r.memory.started, assessment: assessment,
	}
	return assessment
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
	leaving := make(map[types.UID]bool, len(r.memory.assessments))
	for _, seed := range plan.Seeds {
		for _, entry := range seed.Entries {
			if i, ok := l.index[entry.Key]; ok {
				leaving[l.shoots[i].UID] = true
			}
		}
	}
	maps.DeleteFunc(r.memory.assessments, func(uid types.UID, _ remembered) bool { return !leaving[uid] })
}

func (r *Reconciler) log(ctx context.Context) func(string, ...any) {
	return logf.FromContext(ctx).Info
}
