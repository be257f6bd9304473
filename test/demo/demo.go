// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package demo runs a live migration of a shoot in the landscape under load, as an operator would start it, and reports
// what it cost the shoot's clients.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"google.golang.org/grpc/grpclog"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/dualrun"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/machine"
	"github.com/livecpm/livecpm/test/landscape/process"
	"github.com/livecpm/livecpm/test/outlook"
)

// Options says what to migrate and how.
type Options struct {
	// Landscape is where the garden and the seeds are. It must be up.
	Landscape *config.Config
	// Namespace and Shoot name the shoot.
	Namespace, Shoot string
	// Destination is the seed to move to. If it is empty, it is the seed that does not have the shoot now.
	Destination string
	// Before and After are how long the load runs before the trigger and after completion.
	Before, After time.Duration
	// Timeout bounds the migration from the trigger to completion.
	Timeout time.Duration
	// Classic asks for a classic migration instead of a live one. It is there to be compared with; most of what a
	// report is judged by cannot hold then.
	Classic bool
	// Load, when set, changes the load.
	Load func(*probe.Config)
	// Until, when set, ends the run as soon as it is true of the shoot. From then on the caller is responsible for the
	// migration.
	Until func(shoot *gardencorev1beta1.Shoot) bool

	// Out takes the progress. Screen, when set, is where it is drawn instead.
	Out    io.Writer
	Screen *outlook.Screen
	// Outlook, when set, is told how far the run is, and says how long it still takes.
	Outlook *outlook.Tracker

	// BeforeTrigger, when set, is called right before the migration is triggered.
	BeforeTrigger func(ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot) error
	// OnShoot, when set, is called with every state of the shoot that is seen between trigger and completion.
	OnShoot func(ctx context.Context, garden client.Client, shoot *gardencorev1beta1.Shoot)
}

const (
	shootInterval   = 300 * time.Millisecond
	displayInterval = time.Second
	// verificationLimit is how long it may take to read back what was acknowledged, interruptedLimit how long to end
	// the load of a run that was interrupted.
	verificationLimit = 5 * time.Minute
	interruptedLimit  = 5 * time.Second
	// ownershipInterval is the time from one look at both seeds to the next, which tells who acts where.
	ownershipInterval = time.Second
)

// run holds what a run needs in its course.
type run struct {
	Options
	display display
	begin   time.Time

	target              *driver.Shoot
	source, destination *driver.Cluster
	shoot               *gardencorev1beta1.Shoot
	// namespace is that of the shoot in the seeds, names are the DNS names of the shoot.
	namespace string
	names     []string

	load      *probe.Probe
	observers sync.WaitGroup
	seeds     *driver.SeedObserver
	tracker   *driver.Tracker
	etcds     []*driver.EtcdObserver
	workers   *workersObserver // nil for a shoot without workers
	ownership dualrun.Result
	machine   *machineMeter

	mu       sync.Mutex
	phase    string
	timeline *driver.StepTimeline
	// loaded is true while the load runs.
	loaded bool
}

// outcome is how a migration ended.
type outcome struct {
	triggered, completed time.Time
	// err is why it did not come to its end, or nil if it did.
	err error
}

// Run migrates the shoot and returns the report. The report is complete also when the migration fails; the error tells
// only what kept it from being made.
func Run(ctx context.Context, options Options) (*Report, error) {
	// The etcd client's transport reports every failed attempt on stderr, across the display.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	r := &run{Options: options, begin: time.Now(), machine: newMachineMeter()}
	r.display = newDisplay(options.Out, options.Screen)
	leave, err := favour(options)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}

	observeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopObserving := func() {
		stop()
		r.observers.Wait()
	}
	defer stopObserving()
	if err := r.observe(observeCtx); err != nil {
		return nil, err
	}
	if r.workers != nil {
		defer r.removeClients(ctx)
		if err := r.workers.startClients(ctx); err != nil {
			return nil, err
		}
		if err := r.workers.streams.Prepare(observeCtx); err != nil {
			return nil, err
		}
		r.observers.Go(func() { r.workers.inCluster.run(observeCtx) })
		r.observers.Go(func() { r.workers.streams.Run(observeCtx) })
		r.observers.Go(func() { r.workers.askKubelets(observeCtx) })
		r.observers.Go(func() { r.workers.askWebhooks(observeCtx) })
	}
	// A classic migration has no steps that could say who may act where.
	if !r.Classic {
		r.observers.Go(func() { r.ownership = r.ownershipReader().Run(observeCtx, ownershipInterval) })
	}

	if err := r.load.Start(ctx); err != nil {
		return nil, fmt.Errorf("failed to start the load: %w", err)
	}
	r.showLoad()
	r.observers.Go(func() { r.showUntil(observeCtx) })

	o := outcome{}
	o.triggered, o.err = r.migrate(ctx)
	o.completed = time.Now()
	if o.err == nil {
		r.enter("Migration complete, load continues", "after")
		o.err = wait(ctx, r.After)
	}
	r.enter("Load ends, verifying what was acknowledged", "")
	return r.report(ctx, o, stopObserving)
}

// observe begins to look at both seeds, the etcds, and the machines if there are any.
func (r *run) observe(ctx context.Context) error {
	if err := r.seeds.Start(ctx); err != nil {
		return err
	}
	for _, etcd := range r.etcds {
		r.observers.Go(func() { etcd.Run(ctx) })
	}
	if r.workers == nil {
		return nil
	}
	return r.workers.start(ctx)
}

// removeClients takes the in-cluster clients away.
func (r *run) removeClients(ctx context.Context) {
	if err := r.workers.inCluster.remove(context.WithoutCancel(ctx)); err != nil {
		r.display.line("%v", err)
	}
}

// report ends the load and returns what the run has seen. stopObserving ends the observers and waits for them.
func (r *run) report(ctx context.Context, o outcome, stopObserving func()) (*Report, error) {
	limit := verificationLimit
	if ctx.Err() != nil {
		// Somebody wants it to end: there is no report to make, and only the load is to be taken away.
		limit = interruptedLimit
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	result, loadErr := r.load.Stop(stopCtx)
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), loadErr)
	}
	report := &Report{Recording: recording.Recording{
		Shoot:       r.target.Key.String(),
		Source:      r.source.Name,
		Destination: r.destination.Name,
		Probe:       *result,
	}}
	report.Probe.AgreedGap = driver.IntentOf(r.shoot) == steps.AnnotationWithGap
	r.hideLoad()

	workersErr := r.reportWorkers(stopCtx, report, o)
	dnsErr := r.reportDNS(report, o.triggered)
	var leftErr error
	if o.err == nil {
		// Before the end of the migration the source has a right to what it holds.
		report.Details.LeftInSource, leftErr = driver.Leftovers(stopCtx, r.source, r.namespace)
	}
	stopObserving()
	r.fill(report, o)
	report.Ownership = NewOwnershipReport(r.ownership)
	if r.ownership.LastError != nil {
		report.Details.ObserverErrors = append(report.Details.ObserverErrors,
			fmt.Sprintf("%d looks at both seeds failed, the last one: %v", r.ownership.Failed, r.ownership.LastError))
	}
	report.Judge(o.err, loadErr, dnsErr, leftErr, workersErr)
	report.Details.Migration = o.err
	return report, nil
}

// favour gives the clients a weight of their own on the machine: they would be on other machines in the field, and what
// is starved of processor time measures itself. They collect garbage as rarely as the landscape's own processes.
func favour(options Options) (leave func(), err error) {
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return nil, err
	}
	goBack, err := cgroups.JoinOwn(options.Landscape.ClientsCgroup(), machine.WeightClients)
	if err != nil {
		return nil, err
	}
	percent := debug.SetGCPercent(process.GCPercent)
	return func() {
		debug.SetGCPercent(percent)
		if err := goBack(); err != nil {
			_, _ = fmt.Fprintln(options.Out, err)
		}
	}, nil
}

func (r *run) prepare(ctx context.Context) error {
	var err error
	if r.target, err = driver.Open(driver.Target{Landscape: r.Landscape, Namespace: r.Namespace, Name: r.Shoot,
		Timeout: r.Timeout, Out: r.Out}); err != nil {
		return err
	}
	if r.shoot, err = r.target.Get(ctx); err != nil {
		return err
	}
	if err := r.chooseSeeds(); err != nil {
		return err
	}
	r.namespace = r.shoot.Status.TechnicalID
	if r.names, err = driver.DNSNames(ctx, r.source.Client, r.namespace); err != nil {
		return err
	}

	access, err := driver.ShootAccess(ctx, r.target.Garden.Client, r.shoot)
	if err != nil {
		return err
	}
	if !v1beta1helper.IsWorkerless(r.shoot) {
		cloud, err := driver.Connect(r.Landscape, r.Landscape.Cloud().Name)
		if err != nil {
			return err
		}
		if r.workers, err = newWorkersObserver(
			surroundings{namespace: r.namespace, source: r.source, destination: r.destination, cloud: cloud},
			driver.ResolvedBy(driver.DNSServer(r.Landscape), access)); err != nil {
			return err
		}
	}
	if r.load, err = r.newLoad(access); err != nil {
		return err
	}
	seeds := []*driver.Cluster{r.source, r.destination}
	r.tracker = driver.NewTracker(r.source.Name, r.destination.Name)
	r.seeds = driver.NewSeedObserver(r.namespace, seeds, r.tracker)
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		r.etcds = append(r.etcds, driver.NewEtcdObserver(role, r.namespace, seeds, r.seeds))
	}
	return nil
}

func (r *run) newLoad(access *rest.Config) (*probe.Probe, error) {
	load := probe.Config{
		REST:      access,
		DNSServer: driver.DNSServer(r.Landscape),
		DNSNames:  r.names,
	}
	if r.Landscape.Load == config.LoadHeavy {
		probe.Heavy(&load)
	}
	if r.Load != nil {
		r.Load(&load)
	}
	return probe.New(load)
}

// chooseSeeds finds out from where to where, and refuses a shoot that is not at rest.
func (r *run) chooseSeeds() error {
	source, err := driver.AtRest(r.shoot)
	if err != nil {
		return err
	}
	destination := r.Destination
	if destination == "" {
		if destination, err = driver.OtherSeed(r.Landscape, source); err != nil {
			return err
		}
	}
	if source == destination {
		return fmt.Errorf("shoot %s is on seed %s already", r.target.Key, destination)
	}
	for name, target := range map[string]**driver.Cluster{source: &r.source, destination: &r.destination} {
		seed, err := r.Landscape.Seed(name)
		if err != nil {
			return err
		}
		if *target, err = driver.Connect(r.Landscape, seed.Name); err != nil {
			return err
		}
	}
	return nil
}

// migrate runs the load for a while, triggers the migration and waits until the destination's gardenlet has the shoot.
func (r *run) migrate(ctx context.Context) (triggered time.Time, err error) {
	r.display.line("Shoot %s: the control plane moves from %s to %s", r.target.Key, r.source.Name, r.destination.Name)
	r.enter("Load runs before the trigger", "before")
	if err := wait(ctx, r.Before); err != nil {
		return time.Now(), err
	}

	if r.BeforeTrigger != nil {
		if err := r.BeforeTrigger(ctx, r.target.Garden.Client, r.shoot); err != nil {
			return time.Now(), err
		}
	}
	triggered = time.Now()
	if r.workers != nil {
		r.workers.inCluster.tally.Trigger()
	}
	r.mu.Lock()
	r.timeline = driver.NewStepTimeline(triggered)
	r.mu.Unlock()
	r.load.Mark(probe.PhaseDuring)
	r.enter("Migration", "during")
	if err := r.trigger(ctx); err != nil {
		return triggered, NewRefusedError(err)
	}

	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	var last error
	if err := r.target.Follow(ctx, shootInterval, func(sight driver.Sight) bool {
		if last = sight.Err; last != nil {
			return false
		}
		r.timeline.Observe(sight.Look, steps.Conditions(sight.Shoot))
		if r.OnShoot != nil {
			r.OnShoot(ctx, r.target.Garden.Client, sight.Shoot)
		}
		return r.over(sight.Shoot)
	}); err != nil {
		return triggered, errors.Join(fmt.Errorf("the migration did not complete: %w", err), last)
	}
	r.load.Mark(probe.PhaseAfter)
	return triggered, nil
}

// trigger asks for the migration.
func (r *run) trigger(ctx context.Context) error {
	if r.Classic {
		return r.target.Bind(ctx, r.destination.Name)
	}
	return r.target.Begin(ctx, r.destination.Name, "")
}

// over reports whether the run has seen what it was started for.
func (r *run) over(shoot *gardencorev1beta1.Shoot) bool {
	if r.Until != nil && r.Until(shoot) {
		return true
	}
	if r.Classic || r.workers != nil {
		return driver.HandedOverByRestoration(shoot, r.destination.Name)
	}
	return driver.HandedOver(shoot, r.destination.Name)
}

// RefusedError reports that the garden did not accept the request to migrate.
type RefusedError struct{ error }

// NewRefusedError returns an error with the garden's answer.
func NewRefusedError(answer error) *RefusedError { return &RefusedError{answer} }

// Unwrap returns the garden's answer.
func (e *RefusedError) Unwrap() error { return e.error }

func (r *run) reportDNS(report *Report, since time.Time) error {
	report.Details.Probe = report.Probe.Details
	if dns := report.Probe.Details.DNS; dns != nil {
		report.DNSMomentsWithoutRecord = dns.MomentsWithoutRecord
	}
	changes, err := driver.ReadDNSChanges(garden.DNSChangeLog(r.Landscape), since, r.names)
	report.Details.DNSChanges = changes
	report.DNSMomentsWithoutRecord = max(report.DNSMomentsWithoutRecord, driver.MomentsWithoutRecord(changes))
	return err
}

// reportWorkers compares machines, nodes and the state of extensions with those of before.
func (r *run) reportWorkers(ctx context.Context, report *Report, o outcome) error {
	if r.workers == nil {
		return nil
	}
	seed := r.destination
	if o.err != nil {
		seed = r.source
	}
	var err error
	report.Workers, err = r.workers.finish(ctx, seed, o.triggered)
	return err
}

func (r *run) fill(report *Report, o outcome) {
	report.Details.Triggered = o.triggered
	report.DurationSeconds = driver.Seconds(o.completed.Sub(o.triggered))
	report.Etcd = map[string]driver.EtcdReport{}
	report.Details.Etcd = map[string][]driver.MembersAt{}
	for _, etcd := range r.etcds {
		part := etcd.Timeline.Report()
		switch etcd.Role {
		case driver.RoleMain:
			part.AcknowledgedWritesLost = report.Probe.Details.AcknowledgedWritesLost
		case driver.RoleEvents:
			part.AcknowledgedWritesLost = report.Probe.Details.AcknowledgedEventsLost
		}
		report.Etcd[etcd.Role] = part
		report.Details.Etcd[etcd.Role] = etcd.Timeline.Changes()
		if err := etcd.LastError(); err != nil {
			report.Details.ObserverErrors = append(report.Details.ObserverErrors, err.Error())
		}
	}
	report.Details.SourceRestarts = r.tracker.Restarts()
	report.SourceEtcdRestarts = len(report.Details.SourceRestarts)
	report.Details.Overlaps = r.tracker.Overlaps(time.Now())
	report.ControllersActiveInBothSeeds = overlapping(report.Details.Overlaps)
	report.Steps = []driver.StepReport{}
	if r.timeline != nil {
		report.Steps = withLatencies(r.timeline.Report(), o.triggered, r.load.WritesBetween)
		report.Details.Transitions = r.timeline.Transitions()
	}
	report.Details.Machine = r.machine.report()
}

// withLatencies adds to the steps, the first of which began at the given time, what writes took in each of them.
func withLatencies(
	steps []driver.StepReport, begin time.Time, writes func(begin, end time.Time) (p99, slowest float64),
) []driver.StepReport {
	for i := range steps {
		end := begin.Add(time.Duration(steps[i].Seconds * float64(time.Second)))
		steps[i].WriteP99Ms, steps[i].WriteMaxMs = writes(begin, end)
		begin = end
	}
	return steps
}

// overlapping returns the names in the overlaps, each once.
func overlapping(overlaps []driver.Overlap) []string {
	names := []string{}
	for _, overlap := range overlaps {
		names = append(names, overlap.Controller)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (r *run) enter(phase, meter string) {
	r.mu.Lock()
	r.phase = phase
	r.mu.Unlock()
	r.machine.enter(meter)
	if r.Outlook == nil {
		return
	}
	// Each phase is the end of the one before.
	switch meter {
	case "before":
		r.Outlook.Begin(outlook.PartBefore)
	case "during":
		r.Outlook.End(outlook.PartBefore)
		r.Outlook.Begin(outlook.PartMigration)
	case "after":
		r.Outlook.End(outlook.PartMigration)
		r.Outlook.Begin(outlook.PartAfter)
	}
}

// showLoad and hideLoad say whether the display has figures of the load to show.
func (r *run) showLoad() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded = true
}

func (r *run) hideLoad() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded = false
}

func (r *run) showUntil(ctx context.Context) {
	ticker := time.NewTicker(displayInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.machine.sample()
		r.display.show(r.view())
	}
}

func (r *run) view() view {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	v := view{
		phase:   r.phase,
		elapsed: now.Sub(r.begin),
		seeds:   []string{r.source.Name, r.destination.Name},
		members: map[string]map[string]string{},
	}
	if r.timeline != nil {
		v.steps = r.timeline.States(now)
	}
	for _, etcd := range r.etcds {
		v.members[etcd.Role] = etcd.Timeline.BySeed(v.seeds...)
	}
	if r.Outlook != nil {
		v.left = outlook.Minutes(r.Outlook.Left())
	}
	if r.loaded {
		snapshot := r.load.Snapshot()
		v.load = &snapshot
	}
	return v
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
