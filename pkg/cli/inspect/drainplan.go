// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/preflight/placement"
)

// DrainPlanReader finds out what a drain of a seed would do, as livecpm-controller-manager would decide it.
type DrainPlanReader struct {
	// Garden is the garden.
	Garden *access.Garden
	// Strategy is the strategy of the scheduler, SameRegion or MinimalDistance.
	Strategy string
	// Clock is the clock.
	Clock clock.PassiveClock
	// Settings are annotations of the seed that the drain is to have (drain.AllSettings), and that differ from those of
	// now. An empty value stands for one that is removed.
	Settings map[string]string
}

// Read returns where each shoot of the seed would go, or what blocks it. Nothing limits how many move at once, and each
// counts in its destination when the next one is looked at.
func (r DrainPlanReader) Read(ctx context.Context, name string) (drain.SeedPlan, error) {
	now := r.Clock.Now()
	seeds, err := r.Garden.Seeds(ctx)
	if err != nil {
		return drain.SeedPlan{}, err
	}
	shoots, err := r.Garden.AllShoots(ctx)
	if err != nil {
		return drain.SeedPlan{}, err
	}
	seed, ok := r.drainedSeed(seeds, name, now)
	if !ok {
		return drain.SeedPlan{}, fmt.Errorf("there is no Seed %s; `kubectl get seeds` lists them", name)
	}

	garden := drain.Garden{Now: now, Seeds: []drain.Seed{seed}, Budget: unlimited(len(shoots))}
	index := map[drain.Key]int{}
	for i := range shoots {
		shoot := drain.ShootOf(&shoots[i])
		index[shoot.Key] = i
		garden.Shoots = append(garden.Shoots, shoot)
	}
	finder := &placement.Finder{Client: r.Garden.Client, Namespace: v1beta1constants.GardenNamespace,
		Strategy: r.Strategy, Now: now, Seeds: seeds, Shoots: shoots,
		Permits: map[string]drain.Permits{name: seed.Permits}}
	garden.Assess = func(shoot drain.Shoot) drain.Assessment {
		object := &shoots[index[shoot.Key]]
		found := placement.InWindow(finder.Find(ctx, object), object, now)
		if found.Destination != "" {
			object.Spec.SeedName = &found.Destination
		}
		return found
	}
	for _, plan := range drain.Make(garden).Seeds {
		if plan.Name == name {
			return plan, ctx.Err()
		}
	}
	return drain.SeedPlan{Seed: seed}, ctx.Err()
}

// drainedSeed returns the seed as if its drain began now.
func (r DrainPlanReader) drainedSeed(seeds []gardencorev1beta1.Seed, name string, now time.Time) (drain.Seed, bool) {
	for i := range seeds {
		if seeds[i].Name == name {
			for key, value := range r.Settings {
				metav1.SetMetaDataAnnotation(&seeds[i].ObjectMeta, key, value)
				if value == "" {
					delete(seeds[i].Annotations, key)
				}
			}
			seed := drain.SeedOf(&seeds[i])
			seed.Draining, seed.ResumedAt = true, now
			return seed, true
		}
	}
	return drain.Seed{}, false
}

// unlimited is a budget that so many shoots do not exceed.
func unlimited(shoots int) drain.Budget {
	enough := shoots + 1
	return drain.Budget{PerSource: enough, PerDestination: enough, Total: enough, Attempts: 1}
}
