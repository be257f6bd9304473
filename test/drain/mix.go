// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// windowBefore is how long ago the maintenance time windows begin, so that no difference between clocks matters.
const windowBefore = 10 * time.Minute

// Mix are shoots of all kinds that a drain tells apart. All that must wait for their maintenance time windows are
// within them.
type Mix struct {
	Shoots
	// Ways says how each of them can leave, by name.
	Ways map[string]drain.Way
}

// NewMix returns the mix around the landscape's own shoot, which must have workers and be at rest in one of the seeds:
// that is the one to drain. It creates nothing.
func NewMix(
	landscape *config.Config, own *gardencorev1beta1.Shoot, now time.Time, report func(format string, args ...any),
) (*Mix, error) {
	if v1beta1helper.IsWorkerless(own) {
		return nil, fmt.Errorf("shoot %s has no workers: set %s to %s", own.Name, config.EnvShoot, config.ShootWorkers)
	}
	from := now.Add(-windowBefore)
	mix := &Mix{Ways: map[string]drain.Way{own.Name: drain.Live}}
	var others []*shoot.Shoot
	for _, one := range []struct {
		way   drain.Way
		shoot shoot.Shoot
	}{
		{drain.Live, shoot.Shoot{Name: "mix-live"}},
		{drain.LiveWithGap, shoot.Shoot{Name: "mix-gap-one", Single: true, WithGap: true, MaintenanceFrom: from}},
		{drain.LiveWithGap, shoot.Shoot{Name: "mix-gap-two", Single: true, WithGap: true, MaintenanceFrom: from}},
		{drain.Classic, shoot.Shoot{Name: "mix-single", Single: true, MaintenanceFrom: from}},
		{drain.ClassicWhileHibernated, shoot.Shoot{Name: "mix-asleep", Hibernated: true}},
		{drain.ClassicWhileHibernated, shoot.Shoot{Name: "mix-asleep-single", Single: true, Hibernated: true}},
		{drain.ClassicWhileHibernated, shoot.Shoot{Name: "mix-asleep-pools", Workers: true, Hibernated: true}},
	} {
		mix.Ways[one.shoot.Name] = one.way
		others = append(others, &one.shoot)
	}
	var err error
	mix.Shoots, err = newShoots(landscape, own, report, others...)
	return mix, err
}

// Awake returns the names of those whose API servers run.
func (m *Mix) Awake() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.Ways)), func(name string) bool {
		return m.Ways[name] == drain.ClassicWhileHibernated
	})
}
