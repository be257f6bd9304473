// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Defaults of the load: on five clients it makes about twenty operations per second, half of them writes, of which five
// or so concern the same object within the time that an operation takes at worst.
const (
	DefaultClients        = 5
	DefaultStreams        = 3
	DefaultKeys           = 6
	DefaultInterval       = 250 * time.Millisecond
	DefaultRequestTimeout = 10 * time.Second
)

// fenceKey is the object whose creation ends the history: a stream that has seen it is complete.
const fenceKey = "fence"

// Options say what makes the load.
type Options struct {
	// Clients are the stores that the clients talk to, one each.
	Clients []Store
	// Watchers are those that streams are read from, one each.
	Watchers []Watcher
	// Keys is the number of objects that the clients share.
	Keys int
	// Interval is the time between two operations of a client.
	Interval time.Duration
	// RequestTimeout bounds each operation.
	RequestTimeout time.Duration
	// Seed makes the choice of operations repeatable.
	Seed uint64
}

func (o *Options) setDefaults() {
	if o.Keys == 0 {
		o.Keys = DefaultKeys
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
}

// Load runs clients and watches and records what they are told.
type Load struct {
	options Options
	begin   time.Time

	stopLoad, stopWatch context.CancelFunc
	clients, watches    sync.WaitGroup

	mu         sync.Mutex
	operations []Operation
	lastAck    time.Time
	followers  []*follower
}

// Start begins with the watches and then lets the clients go.
func Start(ctx context.Context, options Options) (*Load, error) {
	options.setDefaults()
	if len(options.Clients) == 0 || len(options.Watchers) == 0 {
		return nil, errors.New("failed to start the load: it needs clients and watches")
	}
	l := &Load{options: options, begin: time.Now()}

	watchCtx, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	l.stopWatch = stopWatch
	for i, watcher := range options.Watchers {
		f := &follower{watcher: watcher, since: l.since, stream: &Stream{Name: fmt.Sprintf("watch-%d", i)}}
		if err := f.start(ctx); err != nil {
			stopWatch()
			l.watches.Wait()
			return nil, err
		}
		l.followers = append(l.followers, f)
		l.watches.Go(func() { f.run(watchCtx) })
	}

	loadCtx, stopLoad := context.WithCancel(context.WithoutCancel(ctx))
	l.stopLoad = stopLoad
	for i, store := range options.Clients {
		c := &client{load: l, number: i, store: store, known: map[string]*Object{},
			random: rand.New(rand.NewPCG(options.Seed, uint64(i)))} // #nosec G404 -- nothing here is secret.
		l.clients.Go(func() { c.run(loadCtx) })
	}
	return l, nil
}

func (l *Load) since() time.Duration { return time.Since(l.begin) }

// Requests returns how many requests of the clients have ended so far.
func (l *Load) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.operations)
}

// LastAcknowledged returns when the last write was acknowledged.
func (l *Load) LastAcknowledged() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastAck
}

// Stop lets the clients finish, reads every object once more, writes the fence, waits until each watch has seen it, and
// returns the history. The history is valid also when an error tells that one of these could not be done.
func (l *Load) Stop(ctx context.Context) (*History, error) {
	l.stopLoad()
	l.clients.Wait()

	var errs []error
	last := &client{load: l, number: len(l.options.Clients), store: l.options.Clients[0], known: map[string]*Object{}}
	for i := range l.options.Keys {
		errs = append(errs, last.insist(ctx, Operation{Kind: Read, Key: keyName(i)}))
	}
	fence, err := last.fence(ctx)
	if errs = append(errs, err); err == nil {
		errs = append(errs, l.awaitStreams(ctx, fence))
	}
	l.stopWatch()
	l.watches.Wait()

	h := &History{Begin: l.begin}
	for _, f := range l.followers {
		h.Streams = append(h.Streams, f.result(fence))
	}
	l.mu.Lock()
	h.Operations = l.operations
	l.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return h, fmt.Errorf("failed to bring the history to its end: %w", err)
	}
	return h, nil
}

const (
	lookAgain = 200 * time.Millisecond
	// streamsTimeout bounds how long after the fence the watches may still deliver.
	streamsTimeout = time.Minute
)

func (l *Load) awaitStreams(ctx context.Context, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, streamsTimeout)
	defer cancel()
	for _, f := range l.followers {
		for f.reached() < revision {
			if err := pause(ctx, lookAgain); err != nil {
				return fmt.Errorf("%s did not deliver revision %d, it is at %d", f.stream.Name, revision, f.reached())
			}
		}
	}
	return nil
}

func (l *Load) record(o Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.operations = append(l.operations, o)
	if o.Acknowledged() {
		l.lastAck = time.Now()
	}
}

func keyName(i int) string { return fmt.Sprintf("key-%d", i) }

// client sends one operation after the other.
type client struct {
	load   *Load
	number int
	store  Store
	random *rand.Rand
	// known is what the client was last told about the objects. A key that is not in it is one about which it does not
	// know; nil stands for an object that does not exist.
	known   map[string]*Object
	counter int
}

func (c *client) run(ctx context.Context) {
	ticker := time.NewTicker(c.load.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// A request in flight is given the time to end by itself.
		c.do(context.WithoutCancel(ctx), c.choose())
	}
}

// choose picks the next operation. Clients share few objects, so that what they know is often out of date: that is what
// makes the answers worth checking.
func (c *client) choose() Operation {
	o := Operation{Kind: Read, Key: keyName(c.random.IntN(c.load.options.Keys))}
	object, told := c.known[o.Key]
	dice := c.random.IntN(100)
	switch {
	case !told:
	case object == nil:
		if dice < 65 {
			o.Kind = Create
		}
	case dice < 48:
		o.Kind = Update
	case dice < 56:
		o.Kind = Delete
	case dice < 60:
		// A create of what exists asks for a refusal.
		o.Kind = Create
	}
	return o
}

// do carries out and records the operation.
func (c *client) do(ctx context.Context, o Operation) Operation {
	ctx, cancel := context.WithTimeout(ctx, c.load.options.RequestTimeout)
	defer cancel()

	o.Client = c.number
	if o.Kind == Create || o.Kind == Update {
		c.counter++
		o.Value = fmt.Sprintf("%d-%d", c.number, c.counter)
	}
	var expected Object
	if known := c.known[o.Key]; known != nil && (o.Kind == Update || o.Kind == Delete) {
		expected = *known
		o.Expect = expected.Value
	}

	var (
		object Object
		err    error
	)
	o.Call = c.load.since()
	switch o.Kind {
	case Read:
		object, err = c.store.Get(ctx, o.Key)
	case Create:
		object.Value = o.Value
		object.Revision, err = c.store.Create(ctx, o.Key, o.Value)
	case Update:
		object.Value = o.Value
		object.Revision, err = c.store.Update(ctx, o.Key, expected, o.Value)
	case Delete:
		err = c.store.Delete(ctx, o.Key, expected)
	}
	o.Return = c.load.since()

	delete(c.known, o.Key)
	switch {
	case err == nil:
		o.Outcome, o.Revision = Done, object.Revision
		if o.Kind == Read {
			o.Found = object.Value
		}
		c.known[o.Key] = nil
		if o.Kind != Delete {
			c.known[o.Key] = &object
		}
	case o.Kind == Read && errors.Is(err, ErrAbsent):
		o.Outcome = Done
		c.known[o.Key] = nil
	case o.Kind != Read && errors.Is(err, ErrRejected):
		o.Outcome = Rejected
	case o.Kind == Read:
		o.Outcome, o.Error = Failed, err.Error()
	default:
		o.Outcome, o.Error = Unknown, err.Error()
	}
	c.load.record(o)
	return o
}

// insist repeats an operation until it is answered.
func (c *client) insist(ctx context.Context, o Operation) error {
	for {
		done := c.do(ctx, o)
		if done.Answered() {
			return nil
		}
		if pause(ctx, lookAgain) != nil {
			return fmt.Errorf("no answer to the final %s: %s", describe(o), done.Error)
		}
	}
}

// fence creates an object after everything else and returns its revision. Each attempt has an object of its own,
// because one that failed may have been carried out.
func (c *client) fence(ctx context.Context) (uint64, error) {
	for i := 0; ; i++ {
		done := c.do(ctx, Operation{Kind: Create, Key: fmt.Sprintf("%s-%d", fenceKey, i)})
		if done.Outcome == Done {
			return done.Revision, nil
		}
		if pause(ctx, lookAgain) != nil {
			return 0, fmt.Errorf("the last write was not acknowledged: %s", done.Error)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
