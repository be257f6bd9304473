// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The clock of a world always shows the same time. When time passes, all times that a Shoot has become long ago
// instead, which is more than every deadline and every patience. So there are two times only, and a Shoot that was
// written by the same decisions is the same Shoot.
var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	longAgo = now.Add(-2 * time.Hour)
)

// whole returns all that there is in a plain Shoot, in one text.
func whole(shoot *gardencorev1beta1.Shoot) string {
	var b strings.Builder
	b.WriteString(canonical(shoot))
	if operation := shoot.Status.LastOperation; operation != nil {
		b.WriteString("\n" + operation.Description)
	}
	for _, condition := range steps.Conditions(shoot) {
		b.WriteString("\n" + condition.Message)
	}
	return b.String()
}

// plain gives the times of a Shoot on which nothing depends the value that they have most often.
func plain(shoot *gardencorev1beta1.Shoot) {
	at := metav1.NewTime(now)
	if shoot.Status.LastOperation != nil {
		shoot.Status.LastOperation.LastUpdateTime = at
	}
	all := steps.Conditions(shoot)
	seen := map[steps.Role]time.Time{}
	for _, role := range []steps.Role{steps.Source, steps.Destination} {
		seen[role] = steps.SeenAt(all, role)
	}
	current, unfinished := steps.Current(all)
	for i := range all {
		step, _ := steps.Get(all[i].Type)
		if !unfinished || current.Condition != all[i].Type || !steps.Begun(all, step) {
			all[i].LastTransitionTime = at
		}
		if all[i].LastUpdateTime = at; steps.Begun(all, step) {
			all[i].LastUpdateTime = metav1.NewTime(seen[step.Owner])
		}
	}
}

// canonical returns all that decisions depend on in a Shoot, but for messages. Of these, it has the reason that one
// begins with when the reason of its condition asks the peer for something (conditions.Judge).
func canonical(shoot *gardencorev1beta1.Shoot) string {
	var b strings.Builder
	b.WriteString(judged(shoot))
	if shoot.Status.ObservedGeneration != shoot.Generation {
		b.WriteString(" pending")
	}
	if operation := shoot.Status.LastOperation; operation != nil {
		fmt.Fprintf(&b, " %s/%s/%d", operation.Type, operation.State, operation.Progress)
		if conditions.IsHandOver(operation) {
			b.WriteString("/handed over")
		}
	}
	all := steps.Conditions(shoot)
	for i, condition := range all {
		if hidden := hiddenReason(condition); hidden != "" {
			fmt.Fprintf(&b, " %d:(%s)", i+1, hidden)
		}
	}
	b.WriteString(ages(all))
	return b.String()
}

// judged returns all that the policy of the gate looks at in a Shoot.
func judged(shoot *gardencorev1beta1.Shoot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s>%s", ptr.Deref(shoot.Status.SeedName, ""), ptr.Deref(shoot.Spec.SeedName, ""))
	for _, name := range slices.Sorted(maps.Keys(shoot.Annotations)) {
		b.WriteString(" " + name[strings.LastIndex(name, "/")+1:] + "=" + shoot.Annotations[name])
	}
	for _, constraint := range shoot.Status.Constraints {
		b.WriteString(" " + string(constraint.Type) + "=" + string(constraint.Status))
	}
	for _, condition := range steps.Conditions(shoot) {
		fmt.Fprintf(&b, " %d%s:%s", steps.Index(condition.Type)+1, condition.Status[:1], condition.Reason)
	}
	return b.String()
}

// hiddenReason returns the reason that the message of a condition begins with; empty if it begins with none.
func hiddenReason(condition gardencorev1beta1.Condition) steps.Reason {
	word, _, found := strings.Cut(condition.Message, ": ")
	reason := steps.Reason(word)
	if !found || string(reason) == condition.Reason || !reason.Fault() && !reason.Hold() {
		return ""
	}
	return reason
}

// ages tells which of the times in the conditions that something depends on are long ago: the beginning of the current
// step, for its deadline, and the last signs of life of both agents.
func ages(all []gardencorev1beta1.Condition) string {
	var out string
	if current, unfinished := steps.Current(all); unfinished && steps.Begun(all, current) {
		if condition := v1beta1helper.GetCondition(all, current.Condition); old(condition.LastTransitionTime.Time) {
			out += " late"
		}
	}
	for _, role := range []steps.Role{steps.Source, steps.Destination} {
		if seen := steps.SeenAt(all, role); !seen.IsZero() && old(seen) {
			out += " " + string(role) + "-silent"
		}
	}
	return out
}

func old(t time.Time) bool { return t.Before(now) }

// aged returns the Shoot after a long time.
func aged(shoot *gardencorev1beta1.Shoot) *gardencorev1beta1.Shoot {
	out := shoot.DeepCopy()
	at := metav1.NewTime(longAgo)
	if out.Status.LiveMigration != nil {
		for i := range out.Status.LiveMigration.Conditions {
			out.Status.LiveMigration.Conditions[i].LastTransitionTime = at
			out.Status.LiveMigration.Conditions[i].LastUpdateTime = at
		}
	}
	plain(out)
	return out
}
