// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Straight returns what the conditions say in a migration that nothing disturbs, a second apart and each seen at once,
// for the specs of what is made of it.
func Straight(begin time.Time) []recording.Transition {
	var transitions []recording.Transition
	for _, step := range steps.Table() {
		for _, said := range []struct {
			status gardencorev1beta1.ConditionStatus
			reason steps.Reason
		}{{gardencorev1beta1.ConditionProgressing, steps.ReasonStarted}, {step.Finish.Status, step.Finish.Reason}} {
			transitions = append(transitions, recording.Transition{Time: begin, Condition: step.Condition,
				Status: said.status, Reason: string(said.reason), Since: begin.Add(-time.Second), Seen: begin})
			begin = begin.Add(time.Second)
		}
	}
	return transitions
}
