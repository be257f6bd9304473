// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// The load of one shoot is a fraction of the demo's: there are several, and two of them move at the same time.
const (
	writesPerSecond = 2
	readsPerSecond  = 4
	eventsPerSecond = 1
	watches         = 2
	keys            = 8
	connections     = 2
	// listObjects are several pages for lists, too. Each shoot gets them.
	listObjects = 200
)

// Load is load on several shoots.
type Load struct {
	probes map[string]*probe.Probe

	lock  sync.Mutex
	begun sets.Set[string]
}

// StartLoad puts load on the shoots. What was started before an error is stopped again.
func StartLoad(ctx context.Context, landscape *config.Config, garden client.Client, names ...string) (*Load, error) {
	load := &Load{probes: map[string]*probe.Probe{}, begun: sets.New[string]()}
	for _, name := range names {
		p, err := startOne(ctx, landscape, garden, name)
		if err != nil {
			_, stopErr := load.Stop(context.WithoutCancel(ctx))
			return nil, errors.Join(fmt.Errorf("failed to put load on shoot %s: %w", name, err), stopErr)
		}
		load.probes[name] = p
	}
	return load, nil
}

func startOne(ctx context.Context, landscape *config.Config, garden client.Client, name string) (*probe.Probe, error) {
	object := &gardencorev1beta1.Shoot{}
	if err := garden.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: name}, object); err != nil {
		return nil, err
	}
	credentials, err := driver.ShootAccess(ctx, garden, object)
	if err != nil {
		return nil, err
	}
	host, err := access.PublicHost(object)
	if err != nil {
		return nil, err
	}
	p, err := probe.New(probe.Config{
		REST: credentials, DNSServer: driver.DNSServer(landscape), DNSNames: []string{host},
		WritesPerSecond: writesPerSecond, ReadsPerSecond: readsPerSecond, EventsPerSecond: eventsPerSecond,
		Watches: watches, Keys: keys, KeptConnections: connections, ListObjects: listObjects,
	})
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx)
}

// See tells the clients of the Shoot that its move has begun, when it has: what they notice counts from then on.
func (l *Load) See(_ watch.EventType, shoot *gardencorev1beta1.Shoot) {
	if _, _, moving := steps.Seeds(shoot); !moving || l.probes[shoot.Name] == nil {
		return
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if !l.begun.Has(shoot.Name) {
		l.begun.Insert(shoot.Name)
		l.probes[shoot.Name].Mark(probe.PhaseDuring)
	}
}

// Stop ends the load and returns by shoot what its clients noticed.
func (l *Load) Stop(ctx context.Context) (map[string]*probe.Result, error) {
	var (
		lock    sync.Mutex
		wait    sync.WaitGroup
		results = map[string]*probe.Result{}
		errs    []error
	)
	for name, p := range l.probes {
		wait.Go(func() {
			result, err := p.Stop(ctx)
			lock.Lock()
			defer lock.Unlock()
			results[name] = result
			if err != nil {
				errs = append(errs, fmt.Errorf("failed to end the load on shoot %s: %w", name, err))
			}
		})
	}
	wait.Wait()
	return results, errors.Join(errs...)
}

// Problems tells what is wrong with the results of shoots that moved in these ways. It is empty if no client noticed
// anything but what its shoot's way takes from it: one gap LiveWithGap, and answers for any time Classic. A shoot
// without a way moved Live. A check that was not made, or made with too little load, is no check that passed.
func Problems(results map[string]*probe.Result, ways map[string]drain.Way) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(results)) {
		result := results[name]
		add := func(format string, args ...any) { out = append(out, name+": "+fmt.Sprintf(format, args...)) }
		if result == nil || result.Details == nil {
			add("there was no load")
			continue
		}
		result.AgreedGap = ways[name] == drain.LiveWithGap
		for _, failure := range result.Failures() {
			if ways[name] != drain.Classic || !slices.Contains(result.Unserved(), failure) {
				add("%s", failure)
			}
		}
		details := result.Details
		if details.DNS == nil || details.DNS.Samples == 0 {
			add("no DNS record was sampled")
		}
		if least := 0.8 * (writesPerSecond + readsPerSecond); details.RequestsPerSecond < least {
			add("the load was %.1f requests per second, less than %.1f", details.RequestsPerSecond, least)
		}
		if len(details.Watches) == 0 {
			add("there was no watch")
		}
	}
	return out
}

// Describe returns a line for each shoot.
func Describe(results map[string]*probe.Result) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if result := results[name]; result != nil {
			lost := "an unknown number of"
			if details := result.Details; details != nil && details.Verified {
				lost = strconv.FormatInt(details.AcknowledgedWritesLost, 10)
			}
			out += fmt.Sprintf("%s: %d writes (%d failed), %d reads (%d failed), %d watch events (%d lost), %s "+
				"acknowledged writes lost, longest write gap %s\n",
				name, result.Writes, result.WritesFailed, result.Reads, result.ReadsFailed, result.WatchEvents,
				result.WatchEventsLost, lost,
				// Nothing marks one migration among several, so a gap may stand on either side of the trigger.
				time.Duration(max(result.LongestWriteGapMs, result.BaselineLongestWriteGapMs))*time.Millisecond)
		}
	}
	return out
}

// DescribeFailures returns a line for each time at which requests of a shoot failed.
func DescribeFailures(results map[string]*probe.Result) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(results)) {
		result := results[name]
		if result == nil || result.Details == nil || result.Details.Series == nil {
			continue
		}
		for _, span := range result.Details.Series.FailedSpans() {
			out += fmt.Sprintf("%s: %s\n", name, span)
		}
	}
	return out
}
