// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// measure asks the agents of the seeds to measure the connections between them, as kubectl livecpm plan --probe does.
// They remove the request when they have a result, and the drain asks again only when that does not count any more.
func (r *Reconciler) measure(ctx context.Context, l *look, connections []drain.Connection) error {
	var errs []error
	for _, connection := range connections {
		one, other := l.seed(connection.One), l.seed(connection.Other)
		if one == nil || other == nil || !r.wanting(one, other) {
			continue
		}
		errs = append(errs, r.ask(ctx, l, one, other.Name), r.ask(ctx, l, other, one.Name))
	}
	return errors.Join(errs...)
}

// again is how old a result must be that left something unknown before the agents are asked once more.
const again = 2 * time.Minute

// wanting reports whether the agents of both seeds make probes, and one of them has no result that counts, or none that
// is complete.
func (r *Reconciler) wanting(one, other *gardencorev1beta1.Seed) bool {
	wanting := false
	for from, to := range map[*gardencorev1beta1.Seed]string{one: other.Name, other: one.Name} {
		var probes seedfacts.Probes
		if err := seedfacts.Of(from, seedfacts.AnnotationProbes, &probes); err != nil || probes.Off {
			return false
		}
		result := probes.To(to).Result
		wanting = wanting || result == nil || result.Outdated(r.Clock.Now()) ||
			!result.InOrder() && r.Clock.Since(result.LookedAt.Time) >= again
	}
	return wanting
}

// ask asks the agent of the seed, unless it is asked already.
func (r *Reconciler) ask(ctx context.Context, l *look, seed *gardencorev1beta1.Seed, other string) error {
	now := r.Clock.Now()
	if _, asked := seedfacts.ProbeRequests(seed, now)[other]; asked {
		return nil
	}
	changed := seed.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, seedfacts.ProbeRequest(other), drain.FormatTime(now))
	if err := l.failed(r.patchSeed(ctx, seed, changed)); err != nil {
		return fmt.Errorf("failed to ask the agent of Seed %s for a probe of the connection to seed %s: %w", seed.Name,
			other, err)
	}
	return nil
}

// seed returns the Seed with the name; nil if there is none.
func (l *look) seed(name string) *gardencorev1beta1.Seed {
	for i := range l.seeds {
		if l.seeds[i].Name == name {
			return &l.seeds[i]
		}
	}
	return nil
}
