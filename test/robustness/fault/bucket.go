// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"time"
)

const familyBucketGone = "bucket-gone"

// Buckets are where the etcds of both seeds have their backups.
type Buckets interface {
	// Hide takes them away, Hidden reports whether they are gone, and Show puts them back.
	Hide() error
	Hidden() (bool, error)
	Show() error
}

// bucketsGone takes the buckets of both seeds away: they are empty, and whatever is written to them is refused.
type bucketsGone struct{ fault }

func goneBuckets() []Fault {
	return []Fault{&bucketsGone{fault{name: familyBucketGone + "-60s", family: familyBucketGone, span: whole,
		course: Course{Lasts: time.Minute}}}}
}

// Inject implements Fault.
func (f *bucketsGone) Inject(ctx context.Context, targets *Targets) error {
	targets.Log("taking the buckets of both seeds away")
	if err := targets.Buckets.Hide(); err != nil {
		return err
	}
	if err := eventually(ctx, "the buckets are gone", func(context.Context) (bool, error) {
		return targets.Buckets.Hidden()
	}); err != nil {
		return err
	}
	targets.Prove("the buckets are empty and refuse what is written")
	return nil
}

// InForce implements Fleeting: nobody has put them back.
func (f *bucketsGone) InForce(_ context.Context, targets *Targets) (bool, error) {
	return targets.Buckets.Hidden()
}

// Heal implements Fault.
func (f *bucketsGone) Heal(_ context.Context, targets *Targets) error { return targets.Buckets.Show() }
