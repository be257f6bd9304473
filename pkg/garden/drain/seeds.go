// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// Reasons of the events at Seeds. Whatever the condition Drained comes to is an event as well, with the condition's
// reason.
const (
	// EventDrainStarted reports that a drain has begun or continues.
	EventDrainStarted = "DrainStarted"
	// EventDrainCancelled reports that the annotation is gone and that the scheduler sees the Seed as before.
	EventDrainCancelled = "DrainCancelled"
)

// markSeeds keeps the scheduler away from Seeds that are drained, and gives back to it those that are not any more.
func (r *Reconciler) markSeeds(ctx context.Context, l *look) error {
	var errs []error
	for i := range l.seeds {
		var (
			seed = &l.seeds[i]
			seen = drain.SeedOf(seed)
			what string
			err  error
		)
		switch {
		case seen.Draining && !seen.Marked:
			what, err = "keep the scheduler away from", r.mark(ctx, seed)
		case seen.Draining && visible(seed):
			what, err = "keep the scheduler away from", r.hide(ctx, seed, seed.DeepCopy())
		case !seen.Draining && seen.Marked:
			what, err = "restore the scheduling of", r.unmark(ctx, seed)
		}
		if err == nil {
			continue
		}
		if err := l.failed(err); err != nil {
			errs = append(errs, fmt.Errorf("failed to %s Seed %s: %w", what, seed.Name, err))
		}
	}
	return errors.Join(errs...)
}

// visible is Gardener's default where nothing is said.
func visible(seed *gardencorev1beta1.Seed) bool {
	return seed.Spec.Settings == nil || seed.Spec.Settings.Scheduling == nil || seed.Spec.Settings.Scheduling.Visible
}

func setVisible(seed *gardencorev1beta1.Seed, visible bool) {
	if seed.Spec.Settings == nil {
		seed.Spec.Settings = &gardencorev1beta1.SeedSettings{}
	}
	seed.Spec.Settings.Scheduling = &gardencorev1beta1.SeedSettingScheduling{Visible: visible}
}

// mark begins the drain of the Seed: it hides the Seed from the scheduler, and keeps in the same write whether the
// scheduler saw it before.
func (r *Reconciler) mark(ctx context.Context, seed *gardencorev1beta1.Seed) error {
	marked := seed.DeepCopy()
	now := drain.FormatTime(r.Clock.Now())
	marked.Annotations[drain.AnnotationSchedulingVisible] = strconv.FormatBool(visible(seed))
	marked.Annotations[drain.AnnotationResumedAt] = now
	if drain.SeedOf(seed).StartedAt.IsZero() {
		marked.Annotations[drain.AnnotationStartedAt] = now
	}
	if err := r.hide(ctx, seed, marked); err != nil {
		return err
	}
	r.log(ctx)("The drain begins", "seed", seed.Name)
	r.Recorder.Eventf(seed, nil, corev1.EventTypeNormal, EventDrainStarted, actionMove,
		"Control planes are leaving the seed; the scheduler ignores it until the drain is cancelled")
	return nil
}

// hide writes the changed Seed, hidden from the scheduler. A gardenlet that starts writes the Seed as its configuration
// has it; then the Seed is hidden again, and what is kept of the time before the drain stays.
func (r *Reconciler) hide(ctx context.Context, seed, changed *gardencorev1beta1.Seed) error {
	setVisible(changed, false)
	return r.patchSeed(ctx, seed, changed)
}

// unmark gives the Seed back to the scheduler. A drain that had come to its end is over with that; one that was
// cancelled keeps when it began, and continues from there.
func (r *Reconciler) unmark(ctx context.Context, seed *gardencorev1beta1.Seed) error {
	changed := seed.DeepCopy()
	former, err := strconv.ParseBool(seed.Annotations[drain.AnnotationSchedulingVisible])
	if err != nil {
		former = true
	}
	setVisible(changed, former)
	delete(changed.Annotations, drain.AnnotationSchedulingVisible)
	delete(changed.Annotations, drain.AnnotationResumedAt)
	if condition := v1beta1helper.GetCondition(seed.Status.Conditions, drain.ConditionDrained); condition != nil &&
		condition.Status == gardencorev1beta1.ConditionTrue {
		delete(changed.Annotations, drain.AnnotationStartedAt)
	}
	if err := r.patchSeed(ctx, seed, changed); err != nil {
		return err
	}
	r.log(ctx)("The drain is cancelled", "seed", seed.Name)
	r.Recorder.Eventf(seed, nil, corev1.EventTypeNormal, EventDrainCancelled, actionMove,
		"No more control planes leave the seed; the scheduler treats it as before the drain (visible: %t)", former)
	return nil
}

func (r *Reconciler) patchSeed(ctx context.Context, seed, changed *gardencorev1beta1.Seed) error {
	if err := r.Client.Patch(ctx, changed,
		client.MergeFromWithOptions(seed.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	*seed = *changed
	return nil
}

func (r *Reconciler) resumedAt(l *look, name string) time.Time {
	if seed := l.seed(name); seed != nil {
		return drain.SeedOf(seed).ResumedAt
	}
	return time.Time{}
}

// publish tells how far the drains are, and removes what is said about drains that are over.
func (r *Reconciler) publish(ctx context.Context, l *look, plan drain.Plan) error {
	var (
		errs    []error
		current = map[string]drain.SeedPlan{}
	)
	for _, seed := range plan.Seeds {
		current[seed.Name] = seed
	}
	for i := range l.seeds {
		seed := &l.seeds[i]
		var err error
		if seedPlan, ok := current[seed.Name]; ok {
			err = r.publishOne(ctx, seed, seedPlan)
		} else {
			err = r.withdraw(ctx, seed)
		}
		if err != nil {
			errs = append(errs, l.failed(err))
		}
	}
	r.forget(plan, l)
	for name := range r.memory.measured {
		if _, ok := current[name]; !ok {
			metrics.ForgetDrain(name)
			delete(r.memory.measured, name)
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) publishOne(ctx context.Context, seed *gardencorev1beta1.Seed, plan drain.SeedPlan) error {
	counts := plan.Counts()
	for state, count := range map[drain.State]int{drain.Done: counts.Done, drain.Running: counts.Running,
		drain.Waiting: counts.Waiting, drain.Blocked: counts.Blocked} {
		metrics.DrainShoots(seed.Name, string(state), count)
	}
	metrics.DrainCircuit(seed.Name, plan.CircuitOpen)
	r.memory.measured[seed.Name] = true

	if err := r.writeTable(ctx, seed, plan); err != nil {
		return err
	}

	status, reason, message := plan.Condition()
	before := v1beta1helper.GetCondition(seed.Status.Conditions, drain.ConditionDrained)
	if before != nil && before.Status == status && before.Reason == reason && before.Message == message {
		return nil
	}
	condition := v1beta1helper.UpdatedConditionWithClock(r.Clock, v1beta1helper.GetOrInitConditionWithClock(r.Clock,
		seed.Status.Conditions, drain.ConditionDrained), status, reason, message)
	changed := seed.DeepCopy()
	changed.Status.Conditions = v1beta1helper.MergeConditions(changed.Status.Conditions, condition)
	if err := r.patchSeedStatus(ctx, seed, changed); err != nil {
		return err
	}
	if before == nil || before.Reason != reason {
		kind := corev1.EventTypeNormal
		if status == gardencorev1beta1.ConditionFalse {
			kind = corev1.EventTypeWarning
		}
		r.log(ctx)("The drain has reached another stage", "seed", seed.Name, "reason", reason)
		r.Recorder.Eventf(seed, nil, kind, reason, actionMove, "%s", conditions.Cut(message, maxMessage))
	}
	return nil
}

// withdraw removes what is said about a drain that is over.
func (r *Reconciler) withdraw(ctx context.Context, seed *gardencorev1beta1.Seed) error {
	if v1beta1helper.GetCondition(seed.Status.Conditions, drain.ConditionDrained) == nil {
		return nil
	}
	table := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: drain.TableName(seed.Name), Namespace: r.Namespace}}
	if err := r.Client.Delete(ctx, table); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete ConfigMap %s: %w", table.Name, err)
	}
	changed := seed.DeepCopy()
	changed.Status.Conditions = v1beta1helper.RemoveConditions(changed.Status.Conditions, drain.ConditionDrained)
	return r.patchSeedStatus(ctx, seed, changed)
}

func (r *Reconciler) patchSeedStatus(ctx context.Context, seed, changed *gardencorev1beta1.Seed) error {
	if err := r.Client.Status().Patch(ctx, changed,
		client.MergeFromWithOptions(seed.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("failed to patch the status of Seed %s: %w", seed.Name, err)
	}
	*seed = *changed
	return nil
}

// writeTable publishes the table of all shoots if it has changed.
func (r *Reconciler) writeTable(ctx context.Context, seed *gardencorev1beta1.Seed, plan drain.SeedPlan) error {
	content, err := plan.Table().Encode()
	if err != nil {
		return err
	}
	table := &corev1.ConfigMap{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: drain.TableName(seed.Name)}, table)
	switch {
	case apierrors.IsNotFound(err):
		table = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: drain.TableName(seed.Name), Namespace: r.Namespace,
				// The table goes with the Seed.
				OwnerReferences: []metav1.OwnerReference{{APIVersion: gardencorev1beta1.SchemeGroupVersion.String(),
					Kind: "Seed", Name: seed.Name, UID: seed.UID}},
			},
			Data: map[string]string{drain.TableKey: content},
		}
		if len(seed.Name) <= validation.LabelValueMaxLength {
			table.Labels = map[string]string{drain.TableLabel: seed.Name}
		}
		if err := r.Client.Create(ctx, table); err != nil {
			if apierrors.IsAlreadyExists(err) {
				// The cache does not have it yet.
				return apierrors.NewConflict(corev1.Resource("configmaps"), table.Name, err)
			}
			return fmt.Errorf("failed to create ConfigMap %s: %w", table.Name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("failed to read ConfigMap %s: %w", drain.TableName(seed.Name), err)
	case table.Data[drain.TableKey] == content:
		return nil
	}
	patch := client.MergeFrom(table.DeepCopy())
	table.Data = map[string]string{drain.TableKey: content}
	if err := r.Client.Patch(ctx, table, patch); err != nil {
		return fmt.Errorf("failed to patch ConfigMap %s: %w", table.Name, err)
	}
	return nil
}
