// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

type counters struct {
	writes, writesFailed, reads, readsFailed, stale atomic.Int64
	// writesRetryable and readsRetryable are those of the failed ones that client-go would have sent again.
	writesRetryable, readsRetryable atomic.Int64
	leadershipLost                  atomic.Int64
}

// Probe is one run of the load.
type Probe struct {
	config    Config
	run       string
	namespace string

	// clients make the load as identity; control and admin prepare, verify and clean up, and do not count.
	clients      *connectionStats
	identity     *rest.Config
	control      rest.Interface
	admin        *client
	controlStats *connectionStats
	resolver     *Resolver
	dnsWatch     *DNSWatch

	counters counters
	kinds    kindCounters
	// ledger is that of ConfigMaps and Events, customs that of the probe's own resource, leases that of Leases.
	ledger, customs, leases *ledger
	schedule                *schedule
	// timeline is that of all writes, events and others those of Events and of all other writes.
	timeline, events, others *timeline
	watchers                 []*watcher
	informers                []*informer
	election                 *election
	times                    electionTimes
	// objects are written in turn, and readers is how many operations read them. What is in doubt at the end the
	// doubtful find out.
	objects  []*object
	readers  int
	doubtful []operation
	// aggregated tells whether an aggregated API is there to be read, skipped what the load has to do without.
	aggregated bool
	skipped    []string

	loadEnded           time.Time
	stopLoad, stopWatch context.CancelFunc
	load, watches       sync.WaitGroup

	mu        sync.Mutex
	incidents []Incident
	dropped   int64
}

// maxIncidents bounds what is remembered word by word; the counters count on.
const maxIncidents = 500

func (p *Probe) incident(kind string, err error) {
	p.remember(Incident{Time: time.Now(), Kind: kind, Error: err.Error()})
}

func (p *Probe) remember(incident Incident) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.incidents) >= maxIncidents {
		p.dropped++
		return
	}
	p.incidents = append(p.incidents, incident)
}

// New returns a Probe. Start starts it.
func New(config Config) (*Probe, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("invalid configuration of the probe: %w", err)
	}

	suffix := make([]byte, 4)
	if _, err := rand.Read(suffix); err != nil {
		return nil, fmt.Errorf("failed to draw a name for the run: %w", err)
	}
	p := &Probe{
		config:       config,
		run:          hex.EncodeToString(suffix),
		clients:      &connectionStats{},
		controlStats: &connectionStats{},
		ledger:       newLedger(clock.RealClock{}),
		customs:      newLedger(clock.RealClock{}),
		leases:       newLedger(clock.RealClock{}),
		election:     newElection(),
		times:        usualElection,
		schedule:     newSchedule(clock.RealClock{}),
	}
	p.clients.note = p.incident
	p.namespace = "livecpm-probe-" + p.run
	if config.DNSServer != "" {
		p.resolver = NewResolver(config.DNSServer, clock.RealClock{})
		p.dnsWatch = NewDNSWatch(p.resolver, config.DNSNames, config.DNSInterval, clock.RealClock{})
	}
	return p, nil
}

// lookupKept resolves for kept connections: the answer is used for as long as its TTL says.
func (p *Probe) lookupKept(ctx context.Context, host string) ([]netip.Addr, error) {
	if p.resolver == nil {
		return systemLookup(ctx, host)
	}
	return p.resolver.LookupCached(ctx, host)
}

// lookupFresh resolves for new connections: each asks the DNS server.
func (p *Probe) lookupFresh(ctx context.Context, host string) ([]netip.Addr, error) {
	if p.resolver == nil {
		return systemLookup(ctx, host)
	}
	addresses, _, err := p.resolver.Lookup(ctx, host)
	return addresses, err
}

func (p *Probe) keptClient() (rest.Interface, error) {
	return newRESTClient(p.identity, &dialer{stats: p.clients, lookup: p.lookupKept})
}

func (p *Probe) keptLoadClient() (*client, error) {
	return newClient(p.identity, &dialer{stats: p.clients, lookup: p.lookupKept})
}

func (p *Probe) freshLoadClient() (*client, error) {
	return newClient(p.identity, &dialer{stats: p.clients, lookup: p.lookupFresh, single: true})
}

// Start creates the probe's namespace and what the load needs, establishes the watches and starts the load, which
// continues until Stop.
func (p *Probe) Start(ctx context.Context) error {
	control, err := newClientSet(p.config.REST, &dialer{stats: p.controlStats, lookup: p.lookupFresh})
	if err != nil {
		return err
	}
	p.control = control.CoreV1().RESTClient()
	if p.admin, err = newClient(p.config.REST, &dialer{stats: p.controlStats, lookup: p.lookupFresh}); err != nil {
		return err
	}
	if err := p.checkNames(ctx); err != nil {
		return err
	}

	namespace := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace, Labels: map[string]string{probeLabel: p.run}},
	}
	if err := p.control.Post().Resource("namespaces").Body(namespace).Do(ctx).Error(); err != nil {
		err = fmt.Errorf("failed to create namespace %s: %w", p.namespace, err)
		if ctx.Err() != nil {
			// The answer was not waited for: the namespace may be there all the same.
			err = errors.Join(err, p.cleanup(ctx))
		}
		return err
	}
	if err := p.prepare(ctx, control); err != nil {
		return errors.Join(err, p.cleanup(ctx))
	}
	if err := p.startWatches(ctx); err != nil {
		return errors.Join(err, p.cleanup(ctx))
	}
	if err := p.startLoad(); err != nil {
		p.stopWatch()
		p.watches.Wait()
		return errors.Join(err, p.cleanup(ctx))
	}
	return nil
}

// prepare makes what the load needs.
func (p *Probe) prepare(ctx context.Context, control kubernetes.Interface) (err error) {
	if err := p.createDefinition(ctx); err != nil {
		return err
	}
	p.discoverAggregated(ctx)
	if p.identity, err = p.becomeServiceAccount(ctx, control); err != nil {
		return err
	}
	return p.createPages(ctx)
}

func (p *Probe) checkNames(ctx context.Context) error {
	server, err := url.Parse(p.config.REST.Host)
	if err != nil {
		return fmt.Errorf("failed to parse address of the API server: %w", err)
	}
	for _, name := range append([]string{server.Hostname()}, p.config.DNSNames...) {
		if _, err := netip.ParseAddr(name); err == nil {
			continue
		}
		if _, err := p.lookupFresh(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *Probe) startWatches(ctx context.Context) error {
	revision, err := currentRevision(ctx, p.control, p.namespace)
	if err != nil {
		return fmt.Errorf("failed to list ConfigMaps in namespace %s: %w", p.namespace, err)
	}

	watchCtx, stop := context.WithCancel(context.Background())
	p.stopWatch = stop
	p.newTimelines(time.Now())
	for range p.config.Watches {
		client, err := p.keptClient()
		if err != nil {
			stop()
			p.watches.Wait()
			return err
		}
		w := newWatcher(&watcher{client: client, namespace: p.namespace, revision: revision, ledger: p.ledger,
			clock: clock.RealClock{}, failed: p.watchFailed})
		p.watchers = append(p.watchers, w)
		p.watches.Go(func() { w.run(watchCtx) })
	}

	if err := p.startInformers(ctx, watchCtx); err != nil {
		stop()
		p.watches.Wait()
		return err
	}
	if p.dnsWatch != nil {
		p.watches.Go(func() { p.dnsWatch.Run(watchCtx) })
	}
	return nil
}

// startLoad makes all clients and then starts all kinds of requests at once.
func (p *Probe) startLoad() error {
	loadCtx, stop := context.WithCancel(context.Background())
	p.stopLoad = stop

	kept := make([]*client, 0, p.config.KeptConnections)
	for range p.config.KeptConnections {
		client, err := p.keptLoadClient()
		if err != nil {
			return err
		}
		kept = append(kept, client)
	}
	keptPool, err := p.newPool(pool{kind: "kept", share: func(rate int) int { return rate - p.config.fresh(rate) },
		clientOf: func(i int) (*client, error) { return kept[i%len(kept)], nil }})
	if err != nil {
		return err
	}
	newPool, err := p.newPool(pool{kind: "new", share: p.config.fresh,
		clientOf: func(int) (*client, error) { return p.freshLoadClient() }})
	if err != nil {
		return err
	}
	running := []func(context.Context){p.eventCreator(kept).run}
	for i := range candidates {
		campaign, err := p.newCandidate(i)
		if err != nil {
			return err
		}
		running = append(running, campaign)
	}

	for _, pool := range []pool{keptPool, newPool} {
		running = append(running, p.writer(pool).run, p.reader(pool).run)
	}
	for _, run := range running {
		p.load.Go(func() { run(loadCtx) })
	}
	return nil
}

// pool are the operations over one kind of connections.
type pool struct {
	// kind names the connections.
	kind string
	// share is how much of a rate goes over them.
	share func(rate int) int
	// clientOf gives the i-th operation its client.
	clientOf      func(i int) (*client, error)
	writes, reads chan operation
}

// newPool completes a pool with its operations.
func (p *Probe) newPool(out pool) (pool, error) {
	for _, half := range []struct {
		slots *chan operation
		turns []turn
	}{{&out.writes, turns(p.writeParts(), p.config.Keys)}, {&out.reads, turns(p.readParts(), p.config.readKeys)}} {
		*half.slots = make(chan operation, len(half.turns))
		for i, turn := range half.turns {
			client, err := out.clientOf(i)
			if err != nil {
				return pool{}, err
			}
			*half.slots <- turn.begin(client, fmt.Sprintf("%s-%s-%d", out.kind, turn.name, turn.number))
		}
	}
	return out, nil
}

// watchFailed records a watch that could not be opened, or that did not do what a watch has to.
func (p *Probe) watchFailed(err error) {
	p.counters.reads.Add(1)
	p.failed(kindWatch, err)
}

func (p *Probe) writer(from pool) pacer[operation] {
	return pacer[operation]{kind: from.kind + " writes", rate: from.share(p.config.WritesPerSecond),
		slots: from.writes, schedule: p.schedule, work: operate}
}

func (p *Probe) reader(from pool) pacer[operation] {
	return pacer[operation]{kind: from.kind + " reads", rate: from.share(p.config.ReadsPerSecond),
		slots: from.reads, schedule: p.schedule, after: p.ledger.begun, work: operate}
}

func operate(ctx context.Context, next operation) { next(ctx) }

func (p *Probe) eventCreator(clients []*client) pacer[*client] {
	// As many as can be due while one runs into the time-out: none of them waits for another one.
	atOnce := max(len(clients), int(float64(p.config.EventsPerSecond)*p.config.RequestTimeout.Seconds()))
	slots := make(chan *client, atOnce)
	for i := range atOnce {
		slots <- clients[i%len(clients)]
	}
	number := &atomic.Int64{}
	return pacer[*client]{kind: "Events", rate: p.config.EventsPerSecond, slots: slots, schedule: p.schedule,
		work: func(ctx context.Context, c *client) { p.createEvent(ctx, c, number.Add(1)) }}
}

// Namespace is the namespace that the probe works in. Stop removes it.
func (p *Probe) Namespace() string { return p.namespace }

// Mark begins a phase.
func (p *Probe) Mark(phase Phase) {
	now := time.Now()
	for _, timeline := range []*timeline{p.timeline, p.events, p.others} {
		timeline.mark(phase, now)
	}
}

func (p *Probe) newTimelines(now time.Time) {
	p.timeline, p.events, p.others = newTimeline(now), newTimeline(now), newTimeline(now)
}

// Stop ends the load, lets the watches catch up, verifies that everything acknowledged is there, and removes the
// probe's namespace. The result is valid also when an error tells that the verification or the cleanup failed.
func (p *Probe) Stop(ctx context.Context) (*Result, error) {
	var errs []error

	p.stopLoad()
	p.load.Wait()
	p.loadEnded = time.Now()
	for _, settle := range p.doubtful {
		settle(ctx)
	}

	p.drain(ctx)
	// From here on connections end because the probe ends.
	p.clients.closing.Store(true)
	p.stopWatch()
	p.watches.Wait()

	lostWrites, lostEvents, err := p.verify(ctx)
	if err != nil {
		errs = append(errs, err)
	}
	result := p.result(lostWrites, lostEvents)
	result.Details.Verified = err == nil
	if err := p.cleanup(ctx); err != nil {
		errs = append(errs, err)
	}
	return result, errors.Join(errs...)
}

// drain waits until the watches have delivered everything, or until they no longer may. What is missing then is counted
// by who asks.
func (p *Probe) drain(ctx context.Context) {
	_ = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, p.config.DrainTimeout, true,
		func(context.Context) (bool, error) {
			for _, w := range p.watchers {
				if missing, _ := w.missing(p.ledger); missing > 0 {
					return false, nil
				}
			}
			for _, i := range p.informers {
				if missing, _ := i.missing(); missing > 0 {
					return false, nil
				}
			}
			return true, nil
		})
}
