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
	"net"
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
	// Until, when set, ends the run as soon as it is true of the shoot. The caller looks after the migration then.
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

	garden              *cluster
	source, destination *cluster
	shoot               *gardencorev1beta1.Shoot
	namespace           string
	names               []string

	load    *probe.Probe
	seeds   *seedObserver
	tracker *Tracker
	etcds   []*etcdObserver
	workers *workersObserver // nil for a shoot without workers
	machine *machineMeter

	mu        sync.Mutex
	phase     string
	timeline  *StepTimeline
	loadState bool
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

	observeCtx, stopObserving := context.WithCancel(context.WithoutCancel(ctx))
	var observers sync.WaitGroup
	defer observers.Wait()
	defer stopObserving()
	if err := r.seeds.start(observeCtx); err != nil {
		return nil, err
	}
	for _, etcd := range r.etcds {
		observers.Go(func() { etcd.run(observeCtx) })
	}
	if r.workers != nil {
		if err := r.workers.start(observeCtx); err != nil {
			return nil, err
		}
		defer func() {
			if err := r.workers.inCluster.remove(context.WithoutCancel(ctx)); err != nil {
				r.display.line("%v", err)
			}
		}()
		if err := r.workers.startClients(ctx); err != nil {
			return nil, err
		}
		observers.Go(func() { r.workers.inCluster.run(observeCtx) })
		observers.Go(func() { r.workers.askKubelets(observeCtx) })
	}
	var ownership dualrun.Result
	// A classic migration has no steps that could say who may act where.
	if !r.Classic {
		observers.Go(func() { ownership = r.ownershipReader().Run(observeCtx, ownershipInterval) })
	}

	if err := r.load.Start(ctx); err != nil {
		return nil, fmt.Errorf("failed to start the load: %w", err)
	}
	r.setLoad(true)
	observers.Go(func() { r.showUntil(observeCtx) })

	report := &Report{Recording: recording.Recording{
		Shoot:       client.ObjectKeyFromObject(r.shoot).String(),
		Source:      r.source.name,
		Destination: r.destination.name,
	}}
	triggered, migrationErr := r.migrate(ctx)
	completed := time.Now()
	if migrationErr == nil {
		r.enter("Migration complete, load continues", "after")
		migrationErr = wait(ctx, r.After)
	}
	r.enter("Load ends, verifying what was acknowledged", "")

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
	report.Probe = *result
	r.setLoad(false)

	workersErr := r.reportWorkers(stopCtx, report, triggered, migrationErr == nil)
	dnsErr := r.reportDNS(report, triggered)
	leftErr := r.reportLeftovers(stopCtx, report, migrationErr == nil)
	stopObserving()
	observers.Wait()
	r.fill(report, triggered, completed)
	report.Ownership = NewOwnershipReport(ownership)
	if ownership.LastError != nil {
		report.Details.ObserverErrors = append(report.Details.ObserverErrors,
			fmt.Sprintf("%d looks at both seeds failed, the last one: %v", ownership.Failed, ownership.LastError))
	}
	report.Judge(migrationErr, loadErr, dnsErr, leftErr, workersErr)
	report.Details.Migration = migrationErr
	return report, nil
}

// favour gives the clients a weight of their own on the machine: they would be on other machines in the field, and what
// is starved of processor time measures itself. They collect garbage as rarely as the landscape's own processes.
func favour(options Options) (leave func(), err error) {
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return nil, err
	}
	goBack, err := cgroups.Join(options.Landscape.Garden.Netns, config.ClientsCgroup)
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
	if r.garden, err = connect("garden", r.Landscape.Kubeconfig(r.Landscape.Garden.Name)); err != nil {
		return err
	}
	r.shoot = &gardencorev1beta1.Shoot{}
	key := client.ObjectKey{Namespace: r.Options.Namespace, Name: r.Shoot}
	if err := r.garden.client.Get(ctx, key, r.shoot); err != nil {
		return fmt.Errorf("failed to get shoot %s: %w", key, err)
	}
	if err := r.chooseSeeds(); err != nil {
		return err
	}
	r.namespace = r.shoot.Status.TechnicalID
	if r.names, err = dnsNames(ctx, r.source.client, r.namespace); err != nil {
		return err
	}

	access, err := ShootAccess(ctx, r.garden.client, r.shoot)
	if err != nil {
		return err
	}
	if !v1beta1helper.IsWorkerless(r.shoot) {
		cloud, err := connect("cloud", r.Landscape.Kubeconfig(r.Landscape.Cloud().Name))
		if err != nil {
			return err
		}
		if r.workers, err = newWorkersObserver(r.namespace, r.source, r.destination, cloud,
			resolvedBy(dnsServer(r.Landscape), access)); err != nil {
			return err
		}
	}
	if r.load, err = newLoad(access, r.Landscape, r.names, r.Load); err != nil {
		return err
	}
	seeds := []*cluster{r.source, r.destination}
	r.tracker = NewTracker(r.source.name, r.destination.name)
	r.seeds = newSeedObserver(r.namespace, seeds, r.tracker)
	for _, role := range []string{RoleMain, RoleEvents} {
		r.etcds = append(r.etcds, newEtcdObserver(role, r.namespace, seeds, r.seeds))
	}
	return nil
}

// dnsServer is the address of the server that knows the landscape's names.
func dnsServer(landscape *config.Config) string { return net.JoinHostPort(landscape.Garden.IP, "53") }

func newLoad(
	access *rest.Config, landscape *config.Config, names []string, change func(*probe.Config),
) (*probe.Probe, error) {
	load := probe.Config{
		REST:      access,
		DNSServer: dnsServer(landscape),
		DNSNames:  names,
	}
	if change != nil {
		change(&load)
	}
	return probe.New(load)
}

// chooseSeeds finds out from where to where, and refuses a shoot that is not at rest.
func (r *run) chooseSeeds() error {
	key := client.ObjectKeyFromObject(r.shoot)
	if r.shoot.Status.SeedName == nil || r.shoot.Spec.SeedName == nil ||
		*r.shoot.Status.SeedName != *r.shoot.Spec.SeedName {
		return fmt.Errorf("shoot %s is not at rest on one seed", key)
	}
	source, destination := *r.shoot.Status.SeedName, r.Destination
	for _, seed := range r.Landscape.Seeds {
		if destination == "" && seed.Name != source {
			destination = seed.Name
		}
	}
	if source == destination {
		return fmt.Errorf("shoot %s is on seed %s already", key, destination)
	}
	for name, target := range map[string]**cluster{source: &r.source, destination: &r.destination} {
		seed, err := r.Landscape.Seed(name)
		if err != nil {
			return err
		}
		if *target, err = connect(seed.Name, r.Landscape.Kubeconfig(seed.Name)); err != nil {
			return err
		}
	}
	return nil
}

// migrate runs the load for a while, triggers the migration and waits until the destination's gardenlet has the shoot.
func (r *run) migrate(ctx context.Context) (triggered time.Time, err error) {
	r.display.line("Shoot %s/%s: control plane moves from %s to %s", r.Options.Namespace, r.Shoot, r.source.name,
		r.destination.name)
	r.enter("Load runs before the trigger", "before")
	if err := wait(ctx, r.Before); err != nil {
		return time.Now(), err
	}

	if r.BeforeTrigger != nil {
		if err := r.BeforeTrigger(ctx, r.garden.client, r.shoot); err != nil {
			return time.Now(), err
		}
	}
	triggered = time.Now()
	if r.workers != nil {
		r.workers.inCluster.tally.Trigger()
	}
	r.mu.Lock()
	r.timeline = NewStepTimeline(triggered)
	r.mu.Unlock()
	r.load.Mark(probe.PhaseDuring)
	r.enter("Migration", "during")
	if err := trigger(ctx, r.garden.client, r.shoot, r.destination.name, r.Classic); err != nil {
		return triggered, NewRefusedError(err)
	}

	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	ticker := time.NewTicker(shootInterval)
	defer ticker.Stop()
	last := error(nil)
	for {
		shoot := &gardencorev1beta1.Shoot{}
		if last = r.garden.client.Get(ctx, client.ObjectKeyFromObject(r.shoot), shoot); last == nil {
			r.timeline.Observe(time.Now(), steps.Conditions(shoot))
			if r.OnShoot != nil {
				r.OnShoot(ctx, r.garden.client, shoot)
			}
			if r.over(shoot) {
				r.load.Mark(probe.PhaseAfter)
				return triggered, nil
			}
		}
		select {
		case <-ctx.Done():
			return triggered, errors.Join(fmt.Errorf("the migration did not complete: %w", context.Cause(ctx)), last)
		case <-ticker.C:
		}
	}
}

// over reports whether the run has seen what it was started for.
func (r *run) over(shoot *gardencorev1beta1.Shoot) bool {
	if r.Until != nil && r.Until(shoot) {
		return true
	}
	return handedOver(shoot, r.destination.name, r.Classic || r.workers != nil)
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
	changes, err := ReadDNSChanges(garden.DNSChangeLog(r.Landscape), since, r.names)
	report.Details.DNSChanges = changes
	report.DNSMomentsWithoutRecord = max(report.DNSMomentsWithoutRecord, MomentsWithoutRecord(changes))
	return err
}

// reportLeftovers looks for what the source still holds. It makes sense only when the migration is complete.
func (r *run) reportLeftovers(ctx context.Context, report *Report, complete bool) error {
	if !complete {
		return nil
	}
	var err error
	report.Details.LeftInSource, err = leftovers(ctx, r.source, r.namespace)
	return err
}

// reportWorkers compares machines, nodes and the state of extensions with those of before.
func (r *run) reportWorkers(ctx context.Context, report *Report, triggered time.Time, complete bool) error {
	if r.workers == nil {
		return nil
	}
	seed := r.destination
	if !complete {
		seed = r.source
	}
	var err error
	report.Workers, err = r.workers.finish(ctx, seed, triggered)
	return err
}

func (r *run) fill(report *Report, triggered, completed time.Time) {
	report.Details.Triggered = triggered
	report.DurationSeconds = seconds(completed.Sub(triggered))
	report.Etcd = map[string]EtcdReport{}
	report.Details.Etcd = map[string][]MembersAt{}
	for _, etcd := range r.etcds {
		part := etcd.timeline.Report()
		switch etcd.role {
		case RoleMain:
			part.AcknowledgedWritesLost = report.Probe.Details.AcknowledgedWritesLost
		case RoleEvents:
			part.AcknowledgedWritesLost = report.Probe.Details.AcknowledgedEventsLost
		}
		report.Etcd[etcd.role] = part
		report.Details.Etcd[etcd.role] = etcd.timeline.Changes()
		if err := etcd.lastError(); err != nil {
			report.Details.ObserverErrors = append(report.Details.ObserverErrors, err.Error())
		}
	}
	report.Details.SourceRestarts = r.tracker.Restarts()
	report.SourceEtcdRestarts = len(report.Details.SourceRestarts)
	report.Details.Overlaps = r.tracker.Overlaps(time.Now())
	report.ControllersActiveInBothSeeds = overlapping(report.Details.Overlaps)
	report.Steps = []StepReport{}
	if r.timeline != nil {
		report.Steps = r.timeline.Report()
	}
	report.Details.Machine = r.machine.report()
}

// overlapping returns the names in the overlaps, each once.
func overlapping(overlaps []Overlap) []string {
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

func (r *run) setLoad(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loadState = on
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
		seeds:   []string{r.source.name, r.destination.name},
		members: map[string]map[string]string{},
	}
	if r.timeline != nil {
		v.steps = r.timeline.States(now)
	}
	for _, etcd := range r.etcds {
		v.members[etcd.role] = etcd.timeline.BySeed(v.seeds...)
	}
	if r.Outlook != nil {
		v.left = outlook.Minutes(r.Outlook.Left())
	}
	if r.loadState {
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
