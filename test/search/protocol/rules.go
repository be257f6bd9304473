// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// judgeWrite looks at a write of the Shoot that the API server has accepted. It is about agents; what others may write
// is for the gate.
func (t *turn) judgeWrite(before, after *gardencorev1beta1.Shoot) {
	if t.by == nobody {
		return
	}
	old, written := steps.Conditions(before), steps.Conditions(after)
	for _, step := range steps.Table() {
		was, is := v1beta1helper.GetCondition(old, step.Condition), v1beta1helper.GetCondition(written, step.Condition)
		if is == nil || was != nil && apiequality.Semantic.DeepEqual(was, is) {
			continue
		}
		if step.Owner != t.role && !t.mayWriteForPeer(before, *is) {
			t.violate("the %s has written condition %s of the %s (%s, %s)", t.role, step, step.Owner, is.Status,
				is.Reason)
		}
		t.judgeTransition(before, after, step)
	}
	t.judgeHandOver(before, after)
	t.judgeOperation(before, after)
}

// mayWriteForPeer knows the three times that a role writes a condition of its peer.
func (t *turn) mayWriteForPeer(before *gardencorev1beta1.Shoot, is gardencorev1beta1.Condition) bool {
	conditions := steps.Conditions(before)
	switch {
	case t.role == steps.Source && !steps.Initialized(conditions):
		return is.Status == gardencorev1beta1.ConditionUnknown && is.Reason == string(steps.ReasonPending)
	case t.role == steps.Source:
		return steps.AbandonDue(before) && is.Reason == string(steps.ReasonAbandoned)
	}
	return steps.AbandonSourceDue(before) && is.Reason == string(steps.ReasonSourceAbandoned)
}

// judgeTransition compares the change of a condition with the table of transitions and with the rules of an abort.
func (t *turn) judgeTransition(before, after *gardencorev1beta1.Shoot, step steps.Step) {
	var (
		old, written = steps.Conditions(before), steps.Conditions(after)
		is           = v1beta1helper.GetCondition(written, step.Condition)
		was          = v1beta1helper.GetCondition(old, step.Condition)
	)
	switch reason := steps.Reason(is.Reason); {
	case !steps.Initialized(old):
		if is.Status != gardencorev1beta1.ConditionUnknown && !steps.ClearDue(before) {
			t.violate("condition %s begins as %s", step, is.Status)
		}
		return
	case reason == steps.ReasonAborting, reason == steps.ReasonWithdrawn, reason == steps.ReasonAborted,
		reason == steps.ReasonAbandoned, reason == steps.ReasonShootStatePersisted && steps.AbandonDue(before):
		if !steps.AbortDue(before) && !steps.ClearDue(before) {
			t.violate("condition %s says %s although no abort is due", step, reason)
		}
		if t.world.voters[from] < members {
			t.violate("condition %s says %s although members of the source have left", step, reason)
		}
		return
	case reason == steps.ReasonAbandoningSource, was != nil && was.Reason == string(steps.ReasonAbandoningSource),
		was != nil && was.Status == is.Status && was.Reason == is.Reason && was.Message == is.Message:
		// What stands in the last condition before its turn, and a sign of life.
		return
	case reason == steps.ReasonSourceAbandoned:
		// The destination ends the step in the source's place. A person who has ordered that is not asked again whether
		// the step may begin.
		if !steps.AbandonSourceDue(before) {
			t.violate("condition %s says %s although nobody has ordered it", step, reason)
		}
		return
	case retried(before, after) && is.Status == gardencorev1beta1.ConditionProgressing:
		return
	}
	if err := steps.CheckTransition(old, step, step.Owner, is.Status); err != nil {
		t.violate("%s", err)
	}
	if !steps.Begun(old, step) && steps.Begun(written, step) && !t.proved() {
		t.violate("step %s begins although the gate was not proved in this pass", step)
	}
	if !steps.Begun(old, step) && steps.Begun(written, step) && steps.PausedBefore(before, step) {
		t.violate("step %s begins although a person holds it", step)
	}
}

// retried reports whether a write has carried out a person's request for a retry.
func retried(before, after *gardencorev1beta1.Shoot) bool {
	const operation = "gardener.cloud/operation"
	return before.Annotations[operation] == "retry" && after.Annotations[operation] == ""
}

// judgeHandOver looks at what makes the shoot the destination's.
func (t *turn) judgeHandOver(before, after *gardencorev1beta1.Shoot) {
	was, is := ptr.Deref(before.Status.SeedName, ""), ptr.Deref(after.Status.SeedName, "")
	_, unfinished := steps.Current(steps.Conditions(after))
	if was == is {
		if !unfinished && steps.Requested(before) && steps.Initialized(steps.Conditions(before)) {
			t.violate("the last condition is True before the shoot is handed over")
		}
		if steps.Intended(before) && !steps.Intended(after) && steps.Requested(before) {
			t.violate("the %s takes the intent away before the end", t.role)
		}
		return
	}
	if t.role != steps.Destination || is != ptr.Deref(before.Spec.SeedName, "") || unfinished {
		t.violate("the %s makes %s the seed of the shoot before the end", t.role, is)
	}
}

// judgeOperation compares the last operation with the conditions. Without a gate it may be that of a classic migration,
// which is left alone.
func (t *turn) judgeOperation(before, after *gardencorev1beta1.Shoot) {
	operation, conditions := after.Status.LastOperation, steps.Conditions(after)
	current, unfinished := steps.Current(conditions)
	if !steps.InFlight(after) || !unfinished || current.Owner != t.role || steps.AbortRequested(after) ||
		apiequality.Semantic.DeepEqual(before.Status.LastOperation, operation) {
		return
	}
	if operation.Type != gardencorev1beta1.LastOperationTypeLiveMigrate {
		t.violate("the %s leaves the last operation %s in flight", t.role, operation.Type)
	}
	if operation.Progress != steps.Progress(conditions) {
		t.violate("the last operation says %d %%, the conditions %d %%", operation.Progress, steps.Progress(conditions))
	}
	condition := v1beta1helper.GetCondition(conditions, current.Condition)
	late := condition.Status == gardencorev1beta1.ConditionFalse
	if late && operation.State != gardencorev1beta1.LastOperationStateError {
		t.violate("step %s is late, and the last operation is %s", current, operation.State)
	}
}

// wrong says what must not be in this state.
func (w *World) wrong() string {
	for _, rule := range []func() string{w.acts, w.members, w.reachable, w.ended, w.gated} {
		if problem := rule(); problem != "" {
			return problem
		}
	}
	return ""
}

// acts compares who is at work with the table of ownership. On the way back the table does not hold; then nothing may
// be at work twice that only one seed may have.
func (w *World) acts() string {
	if steps.AbortDue(w.shoot) || steps.Aborted(steps.Conditions(w.shoot)) {
		for i, set := range table {
			if !overlaps(set) && w.acting(from).has(1<<i) && w.acting(to).has(1<<i) {
				return fmt.Sprintf("%s is at work in both seeds during an abort", set.Name)
			}
		}
		return ""
	}
	sample := w.sample(w.shoot)
	text := fmt.Sprint(sample.From, sample.AskedFrom, w.acting(from), w.acting(to))
	problem, known := w.model.acting[text]
	if !known {
		for _, violation := range ownership.Judge(sample) {
			problem = violation.String()
		}
		w.model.acting[text] = problem
	}
	return problem
}

func overlaps(set ownership.Set) bool {
	for _, owner := range set.Owners {
		if owner == steps.HeldByBoth {
			return true
		}
	}
	return false
}

// members says whether the etcds have the members that they need.
func (w *World) members() string {
	switch {
	case w.voters[from]+w.voters[to] < members:
		return fmt.Sprintf("the etcds have %d+%d members", w.voters[from], w.voters[to])
	case w.voters[from] < members && w.voters[to] < members:
		return "members of the source have left although the destination does not have all of its own"
	}
	return ""
}

// reachable says whether DNS leads to a kube-apiserver, and the Shoot to a control plane.
func (w *World) reachable() string {
	if !w.acting(int(w.dns)).has(setOf(steps.KubeAPIServer)) {
		return "DNS leads to " + seedNames[w.dns] + ", where no kube-apiserver can serve"
	}
	if ptr.Deref(w.shoot.Status.SeedName, "") == seedNames[to] && w.acting(from) != 0 {
		return "the shoot is handed over, and something is at work in the source"
	}
	return ""
}

// ended looks at both seeds after an abort.
func (w *World) ended() string {
	if !steps.Aborted(steps.Conditions(w.shoot)) || w.slow != nil {
		return ""
	}
	if w.running[from] != all || w.voters[from] != members || w.dns != from {
		return "the migration is aborted, and the source is not as before"
	}
	if w.acting(to) != 0 || w.voters[to] != 0 {
		return "the migration is aborted, and something is at work in the destination"
	}
	if w.prepared && w.shoot.Annotations[steps.AnnotationLeftBehind] != seedNames[to] {
		return "the migration is aborted, and nobody knows that something is left in the destination"
	}
	return ""
}

// gated says what is wrong with the gate, as long as it is in force. That depends on nothing but the Shoot.
func (w *World) gated() string {
	if w.gateOpen || !steps.Requested(w.shoot) || gate.ReadyForMigration(w.shoot) {
		return ""
	}
	text := judged(w.shoot)
	problem, known := w.model.gated[text]
	if !known {
		problem = w.askGate()
		w.model.gated[text] = problem
	}
	return problem
}

// askGate asks the gate what it would do now, and compares that with what the agents count on.
func (w *World) askGate() string {
	asked := func(change func(*gardencorev1beta1.Shoot)) bool {
		after := w.shoot.DeepCopy()
		change(after)
		refusal, err := w.model.policy.Refuses(w.shoot, after)
		if err != nil {
			panic(err)
		}
		return refusal == ""
	}
	if asked(func(shoot *gardencorev1beta1.Shoot) {
		shoot.Status.Constraints = append(shoot.Status.Constraints, gardencorev1beta1.Condition{
			Type: gardencorev1beta1.ShootReadyForMigration, Status: gardencorev1beta1.ConditionTrue})
	}) {
		return "the gate lets the classic migration start"
	}
	if refusal, err := w.model.policy.Refuses(w.shoot, nil); err != nil || refusal == "" {
		return "the gate lets the Shoot be deleted"
	}
	if steps.AbortRequested(w.shoot) {
		return ""
	}
	possible := asked(func(shoot *gardencorev1beta1.Shoot) { shoot.Annotations[steps.AnnotationAbort] = "true" })
	if possible != steps.AbortPossible(w.shoot) {
		return fmt.Sprintf("the gate takes a request for an abort: %t; the agents would carry it out: %t", possible,
			!possible)
	}
	return ""
}
