// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"cmp"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

const (
	// recent is how many past migrations count: a landscape changes.
	recent = 15
	// enough is how many past migrations between two seeds tell more than all of the garden.
	enough = 3
	// usual is the size of a database that makes no migration longer than others of the garden.
	usual = 256 << 20
	// measured is the size of the database with which the steps were measured (docs/benchmarks.md).
	measured = 20 << 20
	// snapshotRate and joinRate are how many bytes per second go into a snapshot, and to a member that joins, where
	// nothing else is known. They were measured with 1.3 GiB on two cores (docs/benchmarks.md).
	snapshotRate = 14 << 20
	joinRate     = 37 << 20
)

// burden is what the work of a step depends on.
type burden struct {
	// roundTrips is how many times longer than the round trip between the seeds a step takes with a distance than
	// without, measured with 25 to 220 ms (docs/benchmarks.md).
	roundTrips int
	// joins is how many members join each etcd one after the other, snapshots how many snapshots are taken.
	joins, snapshots int
}

var burdens = map[gardencorev1beta1.ConditionType]burden{
	gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin: {snapshots: 1},
	gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined:    {roundTrips: 100, joins: 2},
	gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady: {roundTrips: 330},
	gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete:         {roundTrips: 150, joins: 1},
	gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup:             {roundTrips: 40},
	gardencorev1beta1.ShootLiveMigrationMigrationCompleted:            {roundTrips: 50, snapshots: 1},
}

// work returns how long the work of the step takes, and from how many past migrations of which kind that is known. Wait
// is for how long this migration will wait in the step.
func (f Facts) work(step steps.Step, wait time.Duration) (time.Duration, summary.Basis, int) {
	for _, basis := range []summary.Basis{summary.BasisShoot, summary.BasisSeeds, summary.BasisGarden} {
		samples := f.samples(step, basis, wait)
		if len(samples) == 0 || basis == summary.BasisSeeds && len(samples) < enough {
			continue
		}
		work := median(samples)
		if basis != summary.BasisShoot {
			work += f.moving(step, usual)
		}
		return work, basis, len(samples)
	}
	far, _ := f.roundTrip(f.Source, f.Destination)
	trips := time.Duration(burdens[step.Condition].roundTrips)
	return step.Expected + trips*far + f.moving(step, measured), summary.BasisBenchmark, 0
}

// samples returns how long the work of the step took in past migrations, converted to the distance of this one. The
// last ones count.
func (f Facts) samples(step steps.Step, basis summary.Basis, wait time.Duration) []time.Duration {
	var out []time.Duration
	far, known := f.roundTrip(f.Source, f.Destination)
	for _, record := range slices.Backward(f.Past) {
		took, ok := tookFor(record, step)
		if !ok || !f.alike(record, basis) {
			continue
		}
		waited := record.Waited(step.String())
		if waited == 0 {
			// Nobody saw for how long it waited; it did so as this one will.
			waited = wait
		}
		work := took - waited
		if was, ok := f.roundTrip(record.Source, record.Destination); ok && known {
			work += time.Duration(burdens[step.Condition].roundTrips) * (far - was)
		}
		if out = append(out, max(0, work)); len(out) == recent {
			break
		}
	}
	return out
}

// tookFor returns how long the step took in a past migration. What was held, or longer than its deadline, says nothing
// of how long it has to take.
func tookFor(record history.Record, step steps.Step) (time.Duration, bool) {
	if record.Result == "" || slices.Contains(record.Held, step.String()) {
		return 0, false
	}
	for _, past := range record.Steps {
		took := time.Duration(past.Seconds * float64(time.Second))
		if past.Condition == step.String() {
			return took, step.Deadline == 0 || took <= step.Deadline
		}
	}
	return 0, false
}

// alike reports whether a past migration tells something about this one on that basis. A shoot with workers is no
// example for one without.
func (f Facts) alike(record history.Record, basis summary.Basis) bool {
	if basis == summary.BasisShoot {
		return f.UID != "" && record.UID == f.UID
	}
	if (record.Workers > 0) != (f.Workers > 0) {
		return false
	}
	return basis == summary.BasisGarden || record.Source != "" && f.Source != "" &&
		Between(record.Source, record.Destination) == Between(f.Source, f.Destination)
}

// roundTrip returns that between two seeds, if it was measured.
func (f Facts) roundTrip(a, b string) (time.Duration, bool) {
	trip, ok := f.RoundTrips[Between(a, b)]
	return trip, ok
}

// moving returns how much longer the step takes because the database is larger than the given size.
func (f Facts) moving(step steps.Step, than int64) time.Duration {
	more := max(0, f.Database-than)
	rate := int64(joinRate)
	if f.Rate > 0 {
		rate = min(rate, f.Rate)
	}
	load := burdens[step.Condition]
	return time.Duration(load.joins)*over(more, rate) + time.Duration(load.snapshots)*over(more, snapshotRate)
}

func over(bytes, rate int64) time.Duration {
	return time.Duration(float64(bytes) / float64(rate) * float64(time.Second))
}

// waits returns those of both agents; the default ones where they are not known.
func (f Facts) waits() (source, destination *seedfacts.Waits) {
	return cmp.Or(f.SourceWaits, DefaultWaits()), cmp.Or(f.DestinationWaits, DefaultWaits())
}

// restarts is for how much longer clients are waited for where the kube-apiservers of the source restart for them, on
// the landscape.
const restarts = 30 * time.Second

// wait returns for how long the step waits for times to pass.
func (f Facts) wait(step steps.Step) time.Duration {
	source, destination := f.waits()
	var out time.Duration
	if has(step, steps.ReasonWaitingForDNS) {
		out += f.caches(destination.DNSMargin.Duration)
	}
	if has(step, steps.ReasonDrainingClients) {
		out += destination.Drain.Duration
		if f.GatewayKeepsTLS {
			out += restarts
		}
	}
	if has(step, steps.ReasonWaitingForClientsToLeave) {
		switch {
		case f.GatewayKeepsTLS:
			// Clients have left in the step before.
		case f.Workers > 0:
			// The door for clients inside of the shoot is closed after the other one.
			out += 2 * source.GatewayDrain.Duration
		default:
			out += source.GatewayDrain.Duration
		}
	}
	return out
}

// caches returns how long step 6 waits for caches of DNS.
func (f Facts) caches(margin time.Duration) time.Duration {
	switch {
	case f.told != nil:
		return f.told.Total
	case f.TTL > 0:
		return f.cachedFor(f.TTL) + margin
	}
	for _, basis := range []summary.Basis{summary.BasisShoot, summary.BasisSeeds, summary.BasisGarden} {
		var past []time.Duration
		for _, record := range f.Past {
			for _, wait := range record.Waits {
				if wait.For == waits.Caches && f.alike(record, basis) {
					past = append(past, time.Duration(wait.Seconds*float64(time.Second)))
				}
			}
		}
		if len(past) > 0 {
			return median(past)
		}
	}
	return f.cachedFor(defaultTTL) + margin
}

// sinceShortened is how long before the switch of DNS the source has shortened the TTL of the records, at least: steps
// 2 to 5 take longer on the landscape of the repository.
const sinceShortened = 2 * time.Minute

// cachedFor returns for how long caches keep the source's address of a record that had the TTL before the migration.
func (f Facts) cachedFor(ttl time.Duration) time.Duration {
	source, destination := f.waits()
	short := seedfacts.ShortTTL(source, destination)
	if short == 0 || ttl > source.RecordTTL.Duration {
		return ttl
	}
	return min(ttl, max(short, ttl-sinceShortened))
}

func has(step steps.Step, reason steps.Reason) bool {
	return slices.ContainsFunc(step.Work,
		func(work steps.Work) bool { return slices.Contains(work.Reasons, reason) })
}

// median returns the one in the middle, or the mean of the two there. There must be one.
func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

func seconds(count int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(count) * time.Second}
}
