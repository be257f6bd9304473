// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// maxProblemLength bounds what is published of a condition.
const maxProblemLength = 300

// BackupsOptions are what Backups needs. All of them are required.
type BackupsOptions struct {
	// Garden reads the Seed.
	Garden client.Reader
	// Seed reads the Etcds of the seed.
	Seed client.Reader
	// Reported returns the condition by which etcd-druid reports the backups of an Etcd; nil if it does not.
	Reported func(etcd *druidcorev1alpha1.Etcd) *druidcorev1alpha1.Condition
	// SeedName is the name of the agent's own seed.
	SeedName string
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Backups finds out whether backups arrive in the bucket of the seed. It tries nothing itself: only
// etcd-backup-restore knows how to write to the stores of all providers, with the credentials that it is given. But it
// does so for each shoot that is in the seed already, and etcd-druid reports whether it succeeds.
type Backups struct {
	options BackupsOptions
}

// NewBackups returns a Backups.
func NewBackups(options BackupsOptions) (*Backups, error) {
	if err := required.Fields("the look at the backups of the seed", options); err != nil {
		return nil, err
	}
	return &Backups{options: options}, nil
}

// Fact returns the value of the annotation seedfacts.AnnotationBackups, given the current one. What was in order is
// looked at again when it is time to, and everything else each time.
func (b *Backups) Fact(ctx context.Context, current string) (string, error) {
	var known seedfacts.Backups
	recent := json.Unmarshal([]byte(current), &known) == nil && !known.Due(b.options.Clock.Now())
	if recent && known.InOrder() {
		return current, nil
	}
	seen, err := b.look(ctx)
	if err != nil {
		return "", err
	}
	if seen.Looked = known.Looked; recent && seen == known {
		// The Seed is not written each minute as long as the same is wrong.
		return current, nil
	}
	seen.LookedAt = metav1.NewTime(b.options.Clock.Now().UTC().Truncate(time.Second))
	return seedfacts.Encode(seen)
}

func (b *Backups) look(ctx context.Context) (seedfacts.Backups, error) {
	var out seedfacts.Backups
	seed := &gardencorev1beta1.Seed{}
	if err := b.options.Garden.Get(ctx, client.ObjectKey{Name: b.options.SeedName}, seed); err != nil {
		return out, fmt.Errorf("failed to read Seed %s: %w", b.options.SeedName, err)
	}
	if seed.Spec.Backup == nil {
		return out, nil
	}
	etcds := &druidcorev1alpha1.EtcdList{}
	if err := b.options.Seed.List(ctx, etcds); err != nil {
		return out, fmt.Errorf("failed to list the Etcds of seed %s: %w", b.options.SeedName, err)
	}
	for i := range etcds.Items {
		etcd := &etcds.Items[i]
		if !writesTo(etcd, seed) {
			continue
		}
		switch ready := b.options.Reported(etcd); {
		case ready == nil || ready.Status == druidcorev1alpha1.ConditionUnknown:
		case ready.Status == druidcorev1alpha1.ConditionTrue:
			out.Written++
		default:
			out.Failing++
			problem := conditions.Cut(fmt.Sprintf("%s of Etcd %s is %s: %s", ready.Type,
				client.ObjectKeyFromObject(etcd), ready.Status, ready.Message), maxProblemLength)
			if out.Problem == "" || problem < out.Problem {
				out.Problem = problem
			}
		}
	}
	return out, nil
}

// writesTo reports whether the sidecars of the Etcd write backups to the bucket of the seed, whose name is the UID of
// the Seed.
func writesTo(etcd *druidcorev1alpha1.Etcd, seed *gardencorev1beta1.Seed) bool {
	store := etcd.Spec.Backup.Store
	return store != nil && ptr.Deref(store.Provider, "") != "" && ptr.Deref(store.Container, "") == string(seed.UID) &&
		etcd.DeletionTimestamp == nil
}
