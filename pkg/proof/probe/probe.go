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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

type counters struct {
	writes, writesFailed, reads, readsFailed, stale atomic.Int64
	// writesRetryable and readsRetryable are those of the failed ones that client-go would have sent again.
	writesRetryable, readsRetryable atomic.Int64
}

// Probe is one run of the load.
type Probe struct {
	config    Config
	run       string
	namespace string

	// clients make the load as identity; control prepares, verifies and cleans up, and does not count.
	clients      *connectionStats
	identity     *rest.Config
	control      rest.Interface
	controlStats *connectionStats
	resolver     *Resolver
	dnsWatch     *DNSWatch

	counters counters
	ledger   *ledger
	schedule *schedule
	timeline *timeline
	watchers []*watcher
	objects  []*object

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

func (p *Probe) freshClient() (rest.Interface, error) {
	return newRESTClient(p.identity, &dialer{stats: p.clients, lookup: p.lookupFresh, single: true})
}

// Start creates the probe's namespace, establishes the watches and starts the load, which continues until Stop.
func (p *Probe) Start(ctx context.Context) error {
	control, err := newClientSet(p.config.REST, &dialer{stats: p.controlStats, lookup: p.lookupFresh})
	if err != nil {
		return err
	}
	p.control = control.CoreV1().RESTClient()
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
	if p.identity, err = p.becomeServiceAccount(ctx, control); err != nil {
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
	p.timeline = newTimeline(time.Now())
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

	if p.dnsWatch != nil {
		p.watches.Go(func() { p.dnsWatch.Run(watchCtx) })
	}
	return nil
}

// startLoad makes all clients and then starts all kinds of requests at once.
func (p *Probe) startLoad() error {
	loadCtx, stop := context.WithCancel(context.Background())
	p.stopLoad = stop

	kept := make([]rest.Interface, 0, p.config.KeptConnections)
	for range p.config.KeptConnections {
		client, err := p.keptClient()
		if err != nil {
			return err
		}
		kept = append(kept, client)
	}
	keptPool, err := p.newPool("kept", func(i int) (rest.Interface, error) { return kept[i%len(kept)], nil })
	if err != nil {
		return err
	}
	newPool, err := p.newPool("new", func(int) (rest.Interface, error) { return p.freshClient() })
	if err != nil {
		return err
	}

	fresh := func(rate int) int { return rate * *p.config.NewPercent / 100 }
	share := func(rate int) int { return rate - fresh(rate) }
	for _, paced := range []interface{ run(context.Context) }{
		p.writer(keptPool, share(p.config.WritesPerSecond)), p.reader(keptPool, share(p.config.ReadsPerSecond)),
		p.writer(newPool, fresh(p.config.WritesPerSecond)), p.reader(newPool, fresh(p.config.ReadsPerSecond)),
		p.eventCreator(kept),
	} {
		p.load.Go(func() { paced.run(loadCtx) })
	}
	return nil
}

// pool are the objects that are written and read over one kind of connections.
type pool struct {
	// kind names the connections.
	kind   string
	writes chan *object
	reads  chan *readSlot
}

// newPool returns a pool in which clientOf(i) writes the i-th object, and clientOf(i+1) reads.
func (p *Probe) newPool(kind string, clientOf func(i int) (rest.Interface, error)) (pool, error) {
	out := pool{kind: kind, writes: make(chan *object, p.config.Keys), reads: make(chan *readSlot, p.config.Keys)}
	for i := range p.config.Keys {
		writes, err := clientOf(i)
		if err != nil {
			return pool{}, err
		}
		reads, err := clientOf(i + 1)
		if err != nil {
			return pool{}, err
		}
		o := &object{name: fmt.Sprintf("%s-%d", kind, i), client: writes}
		p.objects = append(p.objects, o)
		out.writes <- o
		out.reads <- &readSlot{client: reads, next: i}
	}
	return out, nil
}

// watchFailed records a watch that could not be opened, or that did not do what a watch has to.
func (p *Probe) watchFailed(err error) {
	p.counters.reads.Add(1)
	p.failed(kindWatch, err)
}

func (p *Probe) writer(from pool, rate int) pacer[*object] {
	return pacer[*object]{kind: from.kind + " writes", rate: rate, slots: from.writes, schedule: p.schedule,
		work: p.write}
}

func (p *Probe) reader(from pool, rate int) pacer[*readSlot] {
	return pacer[*readSlot]{kind: from.kind + " reads", rate: rate, slots: from.reads, schedule: p.schedule,
		after: p.ledger.begun, work: p.readNext}
}

func (p *Probe) eventCreator(clients []rest.Interface) pacer[rest.Interface] {
	slots := make(chan rest.Interface, len(clients))
	for _, client := range clients {
		slots <- client
	}
	number := &atomic.Int64{}
	return pacer[rest.Interface]{kind: "Events", rate: p.config.EventsPerSecond, slots: slots, schedule: p.schedule,
		work: func(ctx context.Context, client rest.Interface) { p.createEvent(ctx, client, number.Add(1)) }}
}

// readSlot reads all objects in turn over its own client.
type readSlot struct {
	client rest.Interface
	next   int
}

// readNext reads the next object that has been written already.
func (p *Probe) readNext(ctx context.Context, s *readSlot) {
	for range p.objects {
		name := p.objects[s.next%len(p.objects)].name
		s.next++
		if p.ledger.last(name) > 0 {
			p.read(ctx, s.client, name)
			return
		}
	}
	notSent(ctx)
}

// Namespace is the namespace that the probe works in. Stop removes it.
func (p *Probe) Namespace() string { return p.namespace }

// Mark begins a phase.
func (p *Probe) Mark(phase Phase) {
	p.timeline.mark(phase, time.Now())
}

// Stop ends the load, lets the watches catch up, verifies that everything acknowledged is there, and removes the
// probe's namespace. The result is valid also when an error tells that the verification or the cleanup failed.
func (p *Probe) Stop(ctx context.Context) (*Result, error) {
	var errs []error

	p.stopLoad()
	p.load.Wait()
	p.loadEnded = time.Now()
	for _, o := range p.objects {
		if o.inDoubt {
			p.settle(ctx, o, p.control)
		}
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
			return true, nil
		})
}

// verify reads everything back. Here, unlike in the load, looking again is right: the question is what is stored.
func (p *Probe) verify(ctx context.Context) (lostWrites, lostEvents int64, err error) {
	const attempts = 10

	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return 0, 0, fmt.Errorf("failed to verify acknowledged writes: %w", err)
			case <-time.After(time.Second):
			}
		}

		var (
			configMaps = &corev1.ConfigMapList{}
			events     = &corev1.EventList{}
		)
		if err = p.list(ctx, "configmaps", configMaps); err != nil {
			continue
		}
		if err = p.list(ctx, "events", events); err != nil {
			continue
		}

		sequences := map[string]int64{}
		for i := range configMaps.Items {
			sequences[configMaps.Items[i].Name] = sequenceOf(&configMaps.Items[i])
		}
		names := map[string]struct{}{}
		for i := range events.Items {
			names[events.Items[i].Name] = struct{}{}
		}
		lostWrites, lostEvents = p.ledger.verify(sequences, names)
		return lostWrites, lostEvents, nil
	}
	return 0, 0, fmt.Errorf("failed to verify acknowledged writes: %w", err)
}

func (p *Probe) list(ctx context.Context, resource string, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return p.control.Get().Namespace(p.namespace).Resource(resource).
		VersionedParams(&metav1.ListOptions{LabelSelector: probeLabel}, scheme.ParameterCodec).
		Do(ctx).Into(into)
}

func (p *Probe) cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.CleanupTimeout)
	defer cancel()

	var last error
	if err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err := p.control.Delete().Resource("namespaces").Name(p.namespace).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return false, nil
	}); err != nil {
		return fmt.Errorf("failed to delete namespace %s: %w", p.namespace, errors.Join(err, last))
	}
	return nil
}
