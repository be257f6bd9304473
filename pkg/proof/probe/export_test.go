// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/patience"
)

// MaxWatchSilence and WatchDue are the bounds of a watch.
const (
	MaxWatchSilence = maxWatchSilence
	WatchDue        = watchDue
)

// HurryElection lets an election have other times.
func HurryElection(p *Probe, lease, renew, retry time.Duration) {
	p.times = electionTimes{lease: lease, renew: renew, retry: retry}
}

// Defaults returns the configuration with what it is where it says nothing.
func Defaults(config Config) Config {
	config.setDefaults()
	return config
}

// everything is a probe whose load has all parts.
func everything() *Probe { return &Probe{aggregated: true} }

// Shares returns the sums of the shares of the parts.
func Shares() (writes, reads int) {
	for _, part := range everything().writeParts() {
		writes += part.share
	}
	for _, part := range everything().readParts() {
		reads += part.share
	}
	return writes, reads
}

// Slots returns how many slots there are with the configuration, for kept and for new connections each.
func Slots(config Config) (writes, reads int) {
	config.setDefaults()
	return len(turns(everything().writeParts(), config.Keys)), len(turns(everything().readParts(), config.readKeys))
}

// Turns returns the names of the parts of the writes in the order of their turns.
func Turns(keys int) []string {
	var out []string
	for _, turn := range turns(everything().writeParts(), keys) {
		out = append(out, turn.name)
	}
	return out
}

// Watch runs one watch until the context ends.
func Watch(ctx context.Context, client rest.Interface) {
	newWatcher(&watcher{client: client, namespace: "default", revision: 1, ledger: newLedger(clock.RealClock{}),
		clock: clock.RealClock{}, failed: func(error) {}}).run(ctx)
}

// Follower follows one stream as a watch of the probe does.
type Follower struct{ watcher *watcher }

// NewFollower returns a Follower of which nothing is due yet.
func NewFollower(c clock.Clock) *Follower {
	return &Follower{watcher: newWatcher(&watcher{ledger: newLedger(c), clock: c})}
}

// Acknowledge lets a write be acknowledged now.
func (f *Follower) Acknowledge(object string, sequence int64) {
	f.watcher.ledger.acknowledge(object, sequence)
}

// Follow follows the stream to its end.
func (f *Follower) Follow(stream watch.Interface) error { return f.watcher.follow(stream) }

// Broken is how many streams broke off.
func (f *Follower) Broken() int64 { return f.watcher.broken.Load() }

// Pace is a pacer of slots that are all alike.
type Pace struct {
	schedule *schedule
	pacer    pacer[struct{}]
}

// NewPace returns a pacer of so many slots. The work is told when it was due.
func NewPace(c clock.Clock, rate, slots int, work func(due time.Time)) *Pace {
	s := newSchedule(c)
	p := &Pace{schedule: s, pacer: pacer[struct{}]{kind: "requests", rate: rate, schedule: s,
		slots: make(chan struct{}, slots),
		work: func(ctx context.Context, _ struct{}) {
			work(dueTime(ctx, time.Time{}))
		}}}
	for range slots {
		p.pacer.slots <- struct{}{}
	}
	return p
}

// After lets nothing be due before the channel is closed.
func (p *Pace) After(begun <-chan struct{}) { p.pacer.after = begun }

// SendNothing lets work find that there is nothing to send.
func (p *Pace) SendNothing() {
	p.pacer.work = func(ctx context.Context, _ struct{}) { notSent(ctx) }
}

// Run paces until the context ends.
func (p *Pace) Run(ctx context.Context) { p.pacer.run(ctx) }

// Open begins to count without anybody who sends.
func (p *Pace) Open() { p.schedule.open(p.pacer.kind, p.pacer.rate) }

// Counts returns what was due and not sent.
func (p *Pace) Counts() recording.Scheduled { return p.schedule.counts()[p.pacer.kind] }

// SentAgain reports whether client-go would have sent the request again.
func SentAgain(req *http.Request, resp *http.Response, err error) bool {
	return sentAgain(req, resp, err)
}

// LatencyOf returns how long a write took that was due at the given time and was answered at once.
func LatencyOf(due time.Time) time.Duration {
	p := &Probe{config: Config{RequestTimeout: patience.Eventually}}
	p.newTimelines(due)
	p.timedWrite(context.WithValue(context.Background(), dueKey{}, dueRequest{at: due}), request{},
		func(context.Context) error { return nil })
	return p.timeline.percentile(PhaseBefore, 1)
}

// Ack is a write that was acknowledged.
type Ack struct {
	At      time.Time
	Latency time.Duration
}

// Acknowledged returns a probe that has seen the writes.
func Acknowledged(writes ...Ack) *Probe {
	p := &Probe{timeline: newTimeline(writes[0].At)}
	for _, write := range writes {
		p.timeline.acknowledged(write.At, write.Latency)
	}
	return p
}

// NewImpatientResolver returns a Resolver that soon gives up the given number of its first questions, which are those
// that are to get no answer, and waits for the answers to all others for as long as tests wait for anything.
func NewImpatientResolver(server string, c clock.PassiveClock, impatient int) *Resolver {
	r := NewResolver(server, c)
	asked := 0
	r.client.Dialer = &net.Dialer{Control: func(string, string, syscall.RawConn) error {
		// A socket is made for each question, before the time for it begins.
		asked++
		r.client.Timeout = patience.Eventually
		if asked <= impatient {
			r.client.Timeout = 50 * time.Millisecond
		}
		return nil
	}}
	return r
}

// Relists is how often informers have had to list again so far.
func (p *Probe) Relists() int64 {
	var sum int64
	for _, i := range p.informers {
		sum += i.relists()
	}
	return sum
}
