// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// An abandonment of the source is the end of a migration without the source, whose seed is lost for good. It is there
// for what only the source can do otherwise: remove its last members from the etcds (step 6), and clean its seed up
// (step 7). The destination does the first in the source's place. It does not do the second: it closes the way between
// the seeds, without which no kube-apiserver in the source has an etcd, and says so in the condition of the source's
// step (ReasonSourceAbandoned), the only time that it writes a condition of its peer.

// AnnotationAbandonSource on a Shoot says that the source of its live migration is lost for good: the destination ends
// the migration alone. Its value is the name of the source's seed, which an operator has to type; any other one asks
// for nothing.
const AnnotationAbandonSource = "migration.gardener.cloud/abandon-source"

// AbandonSourceRequested reports whether the shoot says of the very seed that it comes from that it is lost.
func AbandonSourceRequested(shoot *gardencorev1beta1.Shoot) bool {
	source, _, ok := Seeds(shoot)
	return ok && shoot.Annotations[AnnotationAbandonSource] == source
}

// AbandonSourcePossible reports whether the source may be said to be lost in the present step: the etcds have members
// of both seeds, and the destination's are about to stay alone, or they already have and only the cleanup is left.
// Before, the shoot is what the source has; afterwards, nothing is asked of the source any more.
func AbandonSourcePossible(conditions []gardencorev1beta1.Condition) bool {
	current, unfinished := Current(conditions)
	if !Initialized(conditions) || !unfinished {
		return false
	}
	return current.PointOfNoReturn && Begun(conditions, current) || current.Abandonable
}

// AbandonSourceDue reports whether the destination has to finish the current step in the place of the source.
func AbandonSourceDue(shoot *gardencorev1beta1.Shoot) bool {
	conditions := Conditions(shoot)
	current, unfinished := Current(conditions)
	return InFlight(shoot) && AbandonSourceRequested(shoot) && unfinished && current.Abandonable
}

// SourceAbandoned reports whether the destination has finished the cleanup of the source in the place of the source.
func SourceAbandoned(conditions []gardencorev1beta1.Condition) bool {
	for _, step := range order {
		condition := v1beta1helper.GetCondition(conditions, step.Condition)
		if step.Abandonable && condition != nil && condition.Status == gardencorev1beta1.ConditionTrue &&
			condition.Reason == string(ReasonSourceAbandoned) {
			return true
		}
	}
	return false
}

// CheckAbandonSource returns an error unless the destination may now record an abandonment of the source.
func CheckAbandonSource(conditions []gardencorev1beta1.Condition) error {
	current, unfinished := Current(conditions)
	if !Initialized(conditions) || !unfinished || !current.Abandonable {
		return fmt.Errorf("the source cannot be abandoned: the current step is %q", current.Condition)
	}
	return nil
}

// LeaveBehindInSource records on the Shoot, in memory, that the seed that it comes from has something of it.
func LeaveBehindInSource(shoot *gardencorev1beta1.Shoot) {
	source, _, ok := Seeds(shoot)
	if !ok {
		return
	}
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	shoot.Annotations[AnnotationLeftBehind] = source
}
