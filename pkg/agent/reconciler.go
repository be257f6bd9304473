// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Options are what a Reconciler consists of. All of them are required.
type Options struct {
	// GardenClient writes to the garden. What it reads comes from the cache of the Shoots that belong to the seed.
	GardenClient client.Client
	// GardenAPIReader reads from the garden without a cache: a decision on a stale Shoot could make both roles act.
	GardenAPIReader client.Reader
	// Recorder records events at the Shoot.
	Recorder events.EventRecorder
	// Clock is the clock.
	Clock clock.WithTicker
	// SeedName is the name of the agent's own seed.
	SeedName string
	// Config is the controller's configuration, with defaults.
	Config configv1alpha1.LiveMigrationController
	// Actions holds what each role does.
	Actions map[steps.Role]migration.Actions
	// Gate proves that the classic migration stays away.
	Gate Gate
	// Preflight checks the prerequisites before every step.
	Preflight Preflight
}

// Reconciler carries out live migrations in both roles. It keeps nothing in memory between two passes: what is to be
// done follows from the Shoot and the world, so that another replica can continue at any moment.
type Reconciler struct {
	Options
}

// New returns a Reconciler. It fails if an option is missing: a step that begins without its checks, or without a proof
// that the classic migration stays away, is worse than an agent that does not start.
func New(options Options) (*Reconciler, error) {
	var missing []string
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"GardenClient", options.GardenClient != nil},
		{"GardenAPIReader", options.GardenAPIReader != nil},
		{"Recorder", options.Recorder != nil},
		{"Clock", options.Clock != nil},
		{"SeedName", options.SeedName != ""},
		{"Gate", options.Gate != nil},
		{"Preflight", options.Preflight != nil},
		{"Config.ConcurrentSyncs", options.Config.ConcurrentSyncs != nil},
		{"Config.SyncPeriod", options.Config.SyncPeriod != nil},
		{"Config.GatePeriod", options.Config.GatePeriod != nil},
		{"Config.HoldPeriod", options.Config.HoldPeriod != nil},
		{"Config.AttemptTimeout", options.Config.AttemptTimeout != nil},
		{"Config.RetryBackoff.Base", options.Config.RetryBackoff.Base != nil},
		{"Config.RetryBackoff.Max", options.Config.RetryBackoff.Max != nil},
	} {
		if !option.set {
			missing = append(missing, option.name)
		}
	}
	for _, role := range []steps.Role{steps.Source, steps.Destination} {
		for _, action := range options.Actions[role].Missing(role) {
			missing = append(missing, fmt.Sprintf("Actions of the %s: %s", role, action))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("failed to set up the controller for live migrations: these options are missing: %s",
			strings.Join(missing, ", "))
	}
	// The agents are told from a gardenlet that writes the same conditions by that name.
	options.GardenClient = client.WithFieldOwner(options.GardenClient, steps.AgentFieldManager)
	return &Reconciler{Options: options}, nil
}

// pass is one run of Reconcile for one shoot whose migration this agent takes part in.
type pass struct {
	*Reconciler
	log     logr.Logger
	key     client.ObjectKey
	shoot   *gardencorev1beta1.Shoot
	role    steps.Role
	step    steps.Step
	actions migration.Actions
	// aborting reports whether the migration is being aborted. The step then is the first one of the role.
	aborting bool
	// clearing reports whether the destination removes what an abandonment has left behind. The step then is the same.
	clearing bool
	// synced is when the Always action ran last, gateClosed whether the gate was proved then. Only for what accompanies
	// an action.
	synced     time.Time
	gateClosed bool
	// writing serializes writes of the status: the action and what accompanies it may both want to.
	writing *sync.Mutex
}

// Reconcile makes one pass over the migration of a shoot.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	log := logf.FromContext(ctx).WithValues("shoot", request.NamespacedName, "seed", r.SeedName)

	shoot := &gardencorev1beta1.Shoot{}
	if err := r.GardenAPIReader.Get(ctx, request.NamespacedName, shoot); err != nil {
		if apierrors.IsNotFound(err) || r.left(ctx, request.NamespacedName, err) {
			metrics.Forget(request.Namespace, request.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("failed to read Shoot %s: %w", request.NamespacedName, err)
	}

	role, ok := steps.RoleOf(shoot, r.SeedName)
	if !ok {
		return r.reconcileUninvolved(ctx, log, shoot)
	}

	if !clearing(shoot, role) {
		if result, over, err := r.prepare(ctx, log, shoot, role); over || err != nil {
			return result, err
		}
	}

	p, err := r.newPass(log, shoot, role)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := p.run(logf.IntoContext(ctx, p.log))
	if ctx.Err() != nil {
		// The agent is shutting down; whatever failed now says nothing about the migration.
		result, err = reconcile.Result{}, nil
	}
	if errors.Is(err, errSuperseded) {
		p.log.Info("The migration has moved on during the pass, reading it again", "cause", err.Error())
		return reconcile.Result{RequeueAfter: r.Config.RetryBackoff.Base.Duration}, nil
	}
	return result, err
}

// clearing reports whether what an abandonment has left behind is to be removed by the role.
func clearing(shoot *gardencorev1beta1.Shoot, role steps.Role) bool {
	return role == steps.Destination && steps.ClearDue(shoot)
}

// prepare makes sure that the Shoot has the conditions of a migration that is not over. It reports whether there is
// nothing else to do in the pass.
func (r *Reconciler) prepare(
	ctx context.Context, log logr.Logger, shoot *gardencorev1beta1.Shoot, role steps.Role,
) (reconcile.Result, bool, error) {
	all := steps.Conditions(shoot)
	if steps.AbortRequested(shoot) && steps.Aborted(all) {
		// The operator decides what comes next; see abortedMessage.
		return reconcile.Result{}, true, nil
	}
	current, _ := steps.Current(all)
	if !steps.Initialized(all) || current.Condition == steps.First().Condition {
		if sign := r.Preflight.Rival(ctx, shoot); sign != "" {
			return r.standBack(log, shoot, sign), true, nil
		}
	}
	seed, left := steps.LeftBehindIn(shoot)
	switch {
	case steps.Initialized(all):
		return reconcile.Result{}, false, nil
	case role != steps.Source:
		log.V(1).Info("Waiting for the source to start the migration", "role", role)
		return reconcile.Result{RequeueAfter: r.Config.SyncPeriod.Duration}, true, nil
	case left:
		return r.holdForClearing(log, shoot, seed), true, nil
	}
	return reconcile.Result{}, false, r.initialize(ctx, log, shoot)
}

// newPass finds out what the role has to work on.
func (r *Reconciler) newPass(log logr.Logger, shoot *gardencorev1beta1.Shoot, role steps.Role) (*pass, error) {
	key := client.ObjectKeyFromObject(shoot)
	clearing := clearing(shoot, role)
	step, ok := r.current(steps.Conditions(shoot))
	if !ok && !clearing {
		return nil, fmt.Errorf("failed to find the current step of Shoot %s: all conditions are True", key)
	}
	aborting := steps.AbortDue(shoot) && !clearing
	if aborting || clearing {
		step = steps.AbortOf(role)
	}
	late := func(c gardencorev1beta1.Condition) bool {
		return c.Type == step.Condition && c.Status == gardencorev1beta1.ConditionFalse
	}
	overdue := !aborting && !clearing && slices.ContainsFunc(steps.Conditions(shoot), late)
	metrics.CurrentStep(metrics.Turn{
		Namespace: shoot.Namespace, Shoot: shoot.Name, Cluster: shoot.Status.TechnicalID, Role: role, Step: step,
		Overdue: overdue,
	})
	return &pass{
		Reconciler: r,
		log:        log.WithValues("role", role, "step", step.Condition),
		key:        key,
		shoot:      shoot,
		role:       role,
		step:       step,
		actions:    r.Actions[role],
		aborting:   aborting,
		clearing:   clearing,
		writing:    &sync.Mutex{},
	}, nil
}

// left reports whether a Shoot that could not be read has left the seed. Where the seed authorizer is in force, it is
// forbidden to the source from the hand-over on, and to the destination when it has been given back. The cache holds
// what carries the label of the seed: if the Shoot is still in it, the authorizer does not know yet that the Shoot is
// here, or there is another reason.
func (r *Reconciler) left(ctx context.Context, key client.ObjectKey, err error) bool {
	return apierrors.IsForbidden(err) && apierrors.IsNotFound(r.GardenClient.Get(ctx, key, &gardencorev1beta1.Shoot{}))
}

// run does what the pass has to do, in this order: prove the gate, keep up to date what the joint etcd needs, do the
// part in the peer's step, or work on the own one.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	switch {
	case p.clearing:
		return p.clear(ctx)
	case p.aborting:
		return p.abort(ctx)
	case p.abortsOverdue():
		return p.abortOverdue(ctx)
	}

	gateErr := p.Gate.Prove(ctx, p.shoot)
	metrics.Gate(p.key.Namespace, p.key.Name, gateErr == nil)
	if gateErr == nil && p.abandonsSource() {
		return p.abandonSource(ctx)
	}

	syncAfter, syncErr := p.always(ctx)
	if err := p.tellSnapshots(ctx); errors.Is(err, errSuperseded) {
		return reconcile.Result{}, err
	} else if err != nil {
		p.log.Error(err, "Failed to tell how the shoot is backed up")
	}

	switch {
	case gateErr != nil:
		return p.holdForGate(ctx, gateErr)
	case syncErr != nil:
		return p.failed(ctx, steps.ReasonSyncFailed, syncErr)
	}
	if err := p.showLife(ctx); err != nil {
		// The peer may rely on it, but the work must not wait for the garden.
		metrics.Failure(p.step, p.role, steps.ReasonSyncFailed)
		p.log.Error(err, "Failed to show the peer that this agent is at work")
	}
	if p.step.Owner != p.role {
		return p.assist(ctx, syncAfter)
	}

	if !steps.Begun(steps.Conditions(p.shoot), p.step) {
		if reason, message := p.obstacle(ctx); reason != "" {
			p.log.Info("Holding before the step", "reason", reason, "message", message)
			return p.hold(ctx, reason, message)
		}
		if err := p.publish(ctx, steps.Outcome{Reason: steps.ReasonStarted, Message: p.step.Title}); err != nil {
			return reconcile.Result{}, err
		}
		p.log.Info("Started step")
	} else if retryRequested(p.shoot) {
		if err := p.retry(ctx); err != nil {
			return reconcile.Result{}, err
		}
		p.log.Info("The step starts again, as requested")
	} else if err := p.reassert(ctx); err != nil {
		return reconcile.Result{}, err
	} else if reason, message := p.standstill(ctx); reason != "" {
		p.log.Info("Holding in the middle of the step", "reason", reason, "message", message)
		return p.hold(ctx, reason, message)
	}

	return p.act(ctx, syncAfter)
}

// holdForGate holds because the gate is not proved to be in force.
func (p *pass) holdForGate(ctx context.Context, gateErr error) (reconcile.Result, error) {
	p.log.Error(gateErr, "Holding: the gate against the classic migration is not proved to be in force")
	if err := p.tellAbandonment(ctx, gateErr); err != nil {
		return reconcile.Result{}, err
	}
	return p.hold(ctx, steps.ReasonGateNotInForce, gateErr.Error())
}

// always runs the Always action once the migration has begun.
func (p *pass) always(ctx context.Context) (time.Duration, error) {
	if p.actions.Always == nil || !steps.InFlight(p.shoot) {
		return 0, nil
	}
	outcome, err := p.actions.Always.Run(ctx, p.migration(p.shoot, nil))
	if err != nil {
		return 0, fmt.Errorf("failed to keep the migration's infrastructure up to date: %w", err)
	}
	return outcome.RequeueAfter, nil
}

// assist does the role's part in the step of its peer, if the peer has asked for it.
func (p *pass) assist(ctx context.Context, syncAfter time.Duration) (reconcile.Result, error) {
	if err := p.forgetAbandonment(ctx); err != nil {
		return reconcile.Result{}, err
	}
	action, ok := p.actions.Assists[p.step.Condition]
	if !ok || !steps.AssistDue(steps.Conditions(p.shoot), p.step, p.role) {
		return p.again(0, syncAfter), nil
	}
	if reason, message := p.obstacleAhead(ctx); reason != "" {
		// The peer does not wait for it, and the condition of the own step says the same when its turn comes.
		p.log.Info("Not beginning before the turn", "reason", reason, "message", message)
		return p.again(p.Config.HoldPeriod.Duration, syncAfter), nil
	}

	ctx, cancel := context.WithTimeout(ctx, p.Config.AttemptTimeout.Duration)
	defer cancel()
	stop := p.accompany(ctx, cancel)
	outcome, err := action.Run(ctx, p.migration(p.shoot, nil))
	stop()
	if err != nil {
		return p.failed(ctx, steps.ReasonActionFailed, err)
	}
	p.log.Info("Assisted the peer", "reason", outcome.Reason, "message", outcome.Message)
	return p.again(outcome.RequeueAfter, syncAfter), nil
}

// act makes one attempt at the own step and publishes what came of it.
func (p *pass) act(ctx context.Context, syncAfter time.Duration) (reconcile.Result, error) {
	action, ok := p.actions.Steps[p.step.Condition]
	if !ok {
		return p.failed(ctx, steps.ReasonActionFailed,
			fmt.Errorf("failed to find an action of the %s for step %s", p.role, p.step))
	}

	m := p.migration(p.shoot, func(ctx context.Context, reason steps.Reason, message string) error {
		return p.publish(ctx, steps.Outcome{Reason: reason, Message: message})
	})
	attemptCtx, cancel := context.WithTimeout(ctx, p.Config.AttemptTimeout.Duration)
	stop := p.accompany(attemptCtx, cancel)
	outcome, err := action.Run(attemptCtx, m)
	interrupted := stop()
	cancel()
	if interrupted != "" {
		return reconcile.Result{}, fmt.Errorf("%w: %s", errSuperseded, interrupted)
	}
	if err != nil {
		return p.failed(ctx, steps.ReasonActionFailed, err)
	}

	if !outcome.Finished() {
		p.log.V(1).Info("Step continues", "reason", outcome.Reason, "message", outcome.Message)
		if err := p.publish(ctx, outcome); err != nil {
			return reconcile.Result{}, err
		}
		if outcome.Reason.Fault() || outcome.Reason.Hold() {
			metrics.Failure(p.step, p.role, outcome.Reason)
		}
		return p.again(outcome.RequeueAfter, syncAfter), nil
	}

	duration, known := conditions.Duration(p.Clock, steps.Conditions(p.shoot), p.step)
	if p.step.HandsOver {
		err = p.handOver(ctx, m, outcome)
	} else {
		err = p.publish(ctx, outcome)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if known {
		metrics.StepFinished(p.step, duration)
	}
	p.log.Info("Finished step", "duration", duration.Round(time.Millisecond).String(), "message", outcome.Message)

	if p.step.HandsOver {
		metrics.Forget(p.key.Namespace, p.key.Name)
		return reconcile.Result{}, p.requestReconciliation(ctx, p.log, p.shoot)
	}
	return p.again(0, syncAfter), nil
}

// obstacleBefore returns why a step of the role must not begin yet, or an empty reason and what is wrong without
// holding it.
func (p *pass) obstacleBefore(
	ctx context.Context, step steps.Step,
) (reason steps.Reason, message string, warnings []string) {
	if steps.PausedBefore(p.shoot, step) {
		return steps.ReasonPaused,
			fmt.Sprintf("The annotation %s asks to hold before this step", steps.AnnotationPauseBefore), nil
	}
	return p.Preflight.Before(ctx, p.shoot, step)
}

// obstacleAhead returns why the part in the peer's step that begins an own step before its turn must not be done: what
// holds that step. The reason is empty if nothing does, or if the part is none of that kind.
func (p *pass) obstacleAhead(ctx context.Context) (steps.Reason, string) {
	own, ahead := p.step.Ahead(steps.AskedFor(steps.Conditions(p.shoot), p.step, p.role))
	if !ahead {
		return "", ""
	}
	reason, message, _ := p.obstacleBefore(ctx, own)
	return reason, message
}

// obstacle returns why the step must not begin yet, or an empty reason.
func (p *pass) obstacle(ctx context.Context) (steps.Reason, string) {
	reason, message, warnings := p.obstacleBefore(ctx, p.step)
	if reason == "" && len(warnings) > 0 {
		text := strings.Join(warnings, "; ")
		p.log.Info("The step begins with warnings", "warnings", text)
		p.event(p.shoot, eventWarning, "BegunWithWarnings",
			fmt.Sprintf("Step %s begins with warnings: %s", p.step, text))
	}
	return reason, message
}

// hold publishes why nothing is done, if the step is the own one, and looks again later.
func (p *pass) hold(ctx context.Context, reason steps.Reason, message string) (reconcile.Result, error) {
	if reason != steps.ReasonPaused {
		metrics.Failure(p.step, p.role, reason)
	}
	if p.step.Owner == p.role {
		if err := p.publish(ctx, steps.Outcome{Reason: reason, Message: message}); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: p.Config.HoldPeriod.Duration}, nil
}

// failed publishes a failed attempt, as the step's condition if it is the own one and else as an event, and returns the
// error so that the queue backs off.
func (p *pass) failed(ctx context.Context, reason steps.Reason, cause error) (reconcile.Result, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return reconcile.Result{}, cause
	}
	metrics.Failure(p.step, p.role, reason)
	if p.step.Owner == p.role {
		return reconcile.Result{},
			errors.Join(cause, p.publish(ctx, steps.Outcome{Reason: reason, Message: cause.Error()}))
	}
	p.event(p.shoot, eventWarning, reason,
		fmt.Sprintf("The %s failed in its part of step %s: %s", p.role, p.step, cause))
	return reconcile.Result{}, cause
}

// again returns when to look again: at the earliest of the given times, at the sync period at the latest.
func (p *pass) again(after ...time.Duration) reconcile.Result {
	result := reconcile.Result{RequeueAfter: p.Config.SyncPeriod.Duration}
	for _, d := range after {
		if d > 0 && d < result.RequeueAfter {
			result.RequeueAfter = d
		}
	}
	return result
}

// accompany repeats, while an action runs, what a pass does besides: the Always action, the proof of the gate, and the
// last operation if a gardenlet that restarts has set it to Aborted. When the Shoot asks for something that must not
// wait for the action's end, it calls interrupt. The returned function ends all that, waits for it, and returns why the
// action was interrupted.
func (p *pass) accompany(ctx context.Context, interrupt context.CancelFunc) func() string {
	ctx, cancel := context.WithCancel(ctx)
	companion := *p // The action's reports replace the shoot of the pass meanwhile.
	var (
		wg          sync.WaitGroup
		interrupted string
	)
	companion.synced, companion.gateClosed = p.Clock.Now(), true
	ticker := p.Clock.NewTicker(min(p.Config.SyncPeriod.Duration, p.Config.GatePeriod.Duration))
	wg.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
				why, err := companion.accompanyOnce(ctx)
				if err != nil && ctx.Err() == nil {
					metrics.Failure(companion.step, companion.role, steps.ReasonSyncFailed)
					companion.log.Error(err, "Failed to accompany the running action")
				}
				if why != "" {
					companion.log.Info("Interrupting the running action", "cause", why)
					interrupted = why
					interrupt()
					return
				}
			}
		}
	})
	return func() string {
		cancel()
		wg.Wait()
		return interrupted
	}
}

// accompanyOnce returns why the action has to end, or an empty string.
func (p *pass) accompanyOnce(ctx context.Context) (string, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := p.GardenAPIReader.Get(ctx, p.key, shoot); err != nil {
		return "", fmt.Errorf("failed to read Shoot %s: %w", p.key, err)
	}
	if why := p.interruption(p.shoot, shoot); why != "" {
		return why, nil
	}
	p.shoot = shoot
	var err error
	synced := p.Clock.Since(p.synced) >= p.Config.SyncPeriod.Duration
	if synced {
		if why := p.skewed(ctx); why != "" {
			return why, nil
		}
	}
	if synced {
		p.synced = p.Clock.Now()
		_, err = p.always(ctx)
		err = errors.Join(err, p.tellSnapshots(ctx))
	}

	gateErr := p.Gate.Prove(ctx, shoot)
	metrics.Gate(p.key.Namespace, p.key.Name, gateErr == nil)
	if gateErr != nil {
		// The running action is not cancelled: it may be in the middle of a membership change, and the proof may have
		// failed for a passing reason. Nor is the condition written: its reason may be what the peer acts on. The next
		// pass holds.
		if p.gateClosed {
			p.event(shoot, eventWarning, steps.ReasonGateNotInForce, gateErr.Error())
		}
		p.gateClosed = false
		return "", errors.Join(err, gateErr)
	}
	p.gateClosed = true
	if synced && err == nil {
		err = p.showLife(ctx)
	}
	if p.step.Owner == p.role && !p.aborting {
		err = errors.Join(err, p.reassert(ctx))
	}
	return "", err
}

// migration returns what an action gets to know. Without report, the condition belongs to the peer.
func (p *pass) migration(
	shoot *gardencorev1beta1.Shoot, report func(context.Context, steps.Reason, string) error,
) *migration.Migration {
	if report == nil {
		report = func(context.Context, steps.Reason, string) error { return nil }
	}
	source, destination, _ := steps.Seeds(shoot)
	return &migration.Migration{
		Log:             p.log,
		Shoot:           shoot.DeepCopy(),
		Role:            p.role,
		SourceSeed:      source,
		DestinationSeed: destination,
		Step:            p.step,
		Clock:           p.Clock,
		Report:          report,
		Obstacle:        p.obstacleMeanwhile,
		PeerSeen:        p.peerSeen,
		PeerAlive:       p.peerAlive,
	}
}

// current returns the current step, with the deadline from the configuration.
func (r *Reconciler) current(conditions []gardencorev1beta1.Condition) (steps.Step, bool) {
	step, ok := steps.Current(conditions)
	if deadline, configured := r.Config.StepDeadlines[string(step.Condition)]; configured {
		step.Deadline = deadline.Duration
	}
	return step, ok
}
