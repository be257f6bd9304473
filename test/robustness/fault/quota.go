// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"time"
)

const familyQuota = "quota-full"

// fullQuota makes etcd-main believe that the quota of one of its members is used up. The quota of Gardener's etcds is
// far too large to be filled in a test, so what etcd does when it is reached is brought about directly: the member's
// alarm NOSPACE. It goes through raft like one that a member raises by itself, and from then on every member refuses
// writes that take space, until the alarm is disarmed. What is not covered is the growth up to the quota.
type fullQuota struct{ fault }

func fullQuotas() []Fault {
	return []Fault{&fullQuota{
		fault{name: "quota-full-30s", family: familyQuota, span: whole, course: Course{Lasts: 30 * time.Second}},
	}}
}

// Inject implements Fault.
func (f *fullQuota) Inject(ctx context.Context, targets *Targets) error {
	return targets.anyMember(ctx, func(member Member, id uint64) error {
		targets.Log("raising alarm NOSPACE for etcd member %x", id)
		if err := member.RaiseNoSpace(ctx, id); err != nil {
			return err
		}
		if err := eventually(ctx, "the alarm NOSPACE is raised", member.NoSpace); err != nil {
			return err
		}
		targets.Prove("the alarm NOSPACE is raised")
		return nil
	})
}

// Heal implements Fault.
func (f *fullQuota) Heal(ctx context.Context, targets *Targets) error {
	return targets.anyMember(ctx, func(member Member, _ uint64) error { return member.Disarm(ctx) })
}
