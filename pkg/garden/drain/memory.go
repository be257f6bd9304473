// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// memory is what the process keeps from one pass to the next. All of it may be lost at any time, because a pass decides
// from the Seeds and Shoots alone: what a drain has begun stands in their annotations. A process that starts, or takes
// over, makes up for each part as its comment says.
type memory struct {
	// begun reports that the Shoots were read past the cache since the process became the leader. One that has lost
	// it reads them again.
	begun bool
	// ahead are the Shoots that are newer than those in the cache. They are lost with begun: what is read then is as
	// new as they were.
	ahead ahead
	// assessments are what was found out about shoots that have not started to move. They save the scheduler from being
	// asked about every shoot in every pass; one that is missing is found out again.
	assessments map[types.UID]remembered
	// noticed is how the Notifier has answered; one that is lost is asked again.
	noticed noticed
	// started is how many moves this process has started. It serves only to tell assessments from before a start from
	// those after it.
	started int
	// measured are the seeds that there are metrics of. The metrics are lost with it.
	measured map[string]bool
}

func newMemory() memory {
	return memory{ahead: ahead{}, assessments: map[types.UID]remembered{}, measured: map[string]bool{}}
}

// remembered is an assessment and what it was made from.
type remembered struct {
	version  string
	permits  drain.Permits
	draining string
	at       time.Time
	// started is how many moves had been started then.
	started    int
	assessment drain.Assessment
}

// ahead keeps Shoots that are newer than those in the cache: what this process has written, and what it found when it
// began. Without it, a cache that lags behind would hide moves that count for the budget.
type ahead map[client.ObjectKey]*gardencorev1beta1.Shoot

// keep records a Shoot as the API server has returned it.
func (a ahead) keep(shoot *gardencorev1beta1.Shoot) {
	a[client.ObjectKeyFromObject(shoot)] = shoot
}

// merge replaces what is older in the list, which it may change, and forgets what the cache has caught up with or what
// is gone.
func (a ahead) merge(shoots []gardencorev1beta1.Shoot) {
	if len(a) == 0 {
		return
	}
	found := make(map[client.ObjectKey]bool, len(a))
	for i := range shoots {
		key := client.ObjectKeyFromObject(&shoots[i])
		newer, ok := a[key]
		if !ok {
			continue
		}
		if newer.UID != shoots[i].UID || !behind(&shoots[i], newer) {
			continue
		}
		found[key] = true
		shoots[i] = *newer
	}
	for key := range a {
		if !found[key] {
			delete(a, key)
		}
	}
}

// behind reports whether the first is an older version of the second. If the versions cannot be compared it is taken
// for up to date, as it is sooner or later.
func behind(cached, newer *gardencorev1beta1.Shoot) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, newer.ResourceVersion)
	return err == nil && order < 0
}
