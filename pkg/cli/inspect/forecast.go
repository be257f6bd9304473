// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// landscapeAge is how long what was read of the garden counts: migrations take minutes, and a screen looks every two
// seconds.
const landscapeAge = 5 * time.Minute

// Forecast tells how long migrations take, from what the garden knows. Whatever the user may not read is not known, and
// does without: an expectation is a help, and must not keep anything from being shown. It is safe for concurrent use.
type Forecast struct {
	// Garden is the garden.
	Garden *access.Garden
	// NameServers are asked for the TTL of a shoot's DNS records; nil to ask none.
	NameServers dns.NameServers
	// Clock is the clock.
	Clock clock.PassiveClock

	mu        sync.Mutex
	landscape expected.Landscape
	read      time.Time
	ttls      map[types.UID]*ttl
}

// ttlPatience is how long the first look waits for name servers. Later looks find what they have answered meanwhile.
const ttlPatience = 2 * time.Second

// ttl is what name servers answer for a shoot.
type ttl struct {
	// answered is closed when is holds what they have answered; zero if they have not.
	answered chan struct{}
	is       time.Duration
}

// get returns what they have answered so far; zero if nothing.
func (t *ttl) get() time.Duration {
	select {
	case <-t.answered:
		return t.is
	default:
		return 0
	}
}

// Of returns how long the migration of the shoot is expected to take; nil if none is under way. Seeds are what was seen
// in the seeds.
func (f *Forecast) Of(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, seeds []summary.Seed,
) *summary.Expectation {
	now := f.Clock.Now()
	migration := summary.Summarize(shoot, now)
	if migration.State.Final() || migration.State == summary.Aborting {
		return nil
	}
	facts := f.look(ctx).Facts(shoot, migration.Source, migration.Destination)
	facts.TTL = f.ttl(ctx, shoot)
	facts.Database = LargestDatabase(seeds)
	return expected.Of(migration, facts, now)
}

// LargestDatabase returns the size of the largest etcd database that was seen, in bytes; zero if no member was asked.
func LargestDatabase(seeds []summary.Seed) int64 {
	var out int64
	for _, seed := range seeds {
		for _, etcd := range seed.Etcds {
			for _, member := range etcd.Members {
				if member.DBSize != nil {
					out = max(out, *member.DBSize)
				}
			}
		}
	}
	return out
}

// look reads the garden, unless it has done so a short while ago.
func (f *Forecast) look(ctx context.Context) expected.Landscape {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.Clock.Now(); f.read.IsZero() || now.Sub(f.read) >= landscapeAge {
		seeds, seedsErr := f.Garden.Seeds(ctx)
		past, pastErr := f.Garden.History(ctx)
		if seedsErr != nil {
			seeds = nil
		}
		if pastErr != nil {
			past = history.History{}
		}
		f.landscape, f.read = expected.NewLandscape(seeds, past.Records), now
	}
	return f.landscape
}

// ttl returns the longest TTL of the shoot's records, and zero as long as name servers have not answered. They are
// asked once: when DNS leads to the destination, they say something else. The first look waits for them, but not for
// long.
func (f *Forecast) ttl(ctx context.Context, shoot *gardencorev1beta1.Shoot) time.Duration {
	if f.NameServers == nil {
		return 0
	}
	asked, first := f.ask(shoot)
	if asked == nil {
		return 0
	}
	if first {
		patience, cancel := context.WithTimeout(ctx, ttlPatience)
		defer cancel()
		select {
		case <-asked.answered:
		case <-patience.Done():
		}
	}
	return asked.get()
}

// ask asks name servers about the shoot in the background, unless they were asked before. It returns nil if it is too
// late to ask.
func (f *Forecast) ask(shoot *gardencorev1beta1.Shoot) (asked *ttl, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, found := f.ttls[shoot.UID]; found {
		return known, false
	}
	if steps.Begun(steps.Conditions(shoot), switching()) {
		return nil, false
	}
	if f.ttls == nil {
		f.ttls = map[types.UID]*ttl{}
	}
	asked = &ttl{answered: make(chan struct{})}
	f.ttls[shoot.UID] = asked
	go func() {
		defer close(asked.answered)
		// It outlives the look that has asked; ttlTimeout bounds it.
		for _, record := range ttls(context.Background(), f.NameServers, f.Clock, shoot) {
			asked.is = max(asked.is, record.TTL.Duration)
		}
	}()
	return asked, true
}

// switching is the step that switches DNS.
func switching() steps.Step {
	step, _ := steps.Get(gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
	return step
}
