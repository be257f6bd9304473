// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const (
	electionName = "election"
	// candidates is how many campaign: one leads and the others look on, as with the replicas of a controller.
	candidates = 2
)

// electionTimes are the times of an election.
type electionTimes struct {
	// lease is how long the others wait before they take over, renew how long the leader tries to stay, and retry the
	// time between two tries.
	lease, renew, retry time.Duration
}

// usualElection is what the components of Kubernetes take if they are not told otherwise.
var usualElection = electionTimes{lease: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}

// election is what the candidates for one Lease have in common.
type election struct {
	// begun is closed when there is a leader for the first time.
	begun   chan struct{}
	beginIt func()

	mu sync.Mutex
	// renewed is the newest time of renewal that was acknowledged.
	renewed time.Time
}

func newElection() *election {
	e := &election{begun: make(chan struct{})}
	e.beginIt = sync.OnceFunc(func() { close(e.begun) })
	return e
}

func (e *election) acknowledge(record resourcelock.LeaderElectionRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// What a Lease holds is exact to the microsecond.
	if renewed := record.RenewTime.Truncate(time.Microsecond); renewed.After(e.renewed) {
		e.renewed = renewed
	}
}

// asNewAs reports whether nothing newer than the time was acknowledged.
func (e *election) asNewAs(renewed time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !renewed.Before(e.renewed)
}

// unborn reports whether there has been no leader yet.
func (e *election) unborn() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.renewed.IsZero()
}

// countingLock is the lock of a candidate. Each of its requests counts, is sent once, and is given the time to end by
// itself when the load ends.
type countingLock struct {
	resourcelock.Interface
	probe *Probe
}

// Get reads the Lease. That there is none yet is an answer like others.
func (l *countingLock) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	r := request{verbGet, kindLease, electionName}
	err = l.probe.timedRead(context.WithoutCancel(ctx), r, func(ctx context.Context) (err error) {
		record, raw, err = l.Interface.Get(ctx)
		return err
	})
	if err != nil && !(apierrors.IsNotFound(err) && l.probe.election.unborn()) {
		l.probe.readFailed(r, err)
	}
	return record, raw, err
}

// Create creates the Lease.
func (l *countingLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, verbCreate, record, l.Interface.Create)
}

// Update renews the Lease.
func (l *countingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, verbUpdate, record, l.Interface.Update)
}

func (l *countingLock) write(
	ctx context.Context, verb string, record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	var failure error
	if !l.probe.timedWrite(context.WithoutCancel(ctx), request{verb, kindLease, electionName},
		func(ctx context.Context) error {
			failure = send(ctx, record)
			return failure
		}) {
		return failure
	}
	l.probe.election.acknowledge(record)
	return nil
}

// newCandidate returns what campaigns until the context ends. That it loses leadership meanwhile is a failure of its
// own, beside those of the requests that led to it.
func (p *Probe) newCandidate(number int) (func(ctx context.Context), error) {
	c, err := p.keptLoadClient()
	if err != nil {
		return nil, err
	}
	identity := fmt.Sprintf("candidate-%d", number)
	config := leaderelection.LeaderElectionConfig{
		Lock: &countingLock{probe: p, Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: electionName, Namespace: p.namespace},
			Client:     c.leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}},
		LeaseDuration: p.times.lease, RenewDeadline: p.times.renew, RetryPeriod: p.times.retry,
		ReleaseOnCancel: true, Name: electionName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { p.election.beginIt() },
			OnStoppedLeading: func() {},
		},
	}
	if _, err := leaderelection.NewLeaderElector(config); err != nil {
		return nil, fmt.Errorf("failed to make a candidate for a Lease: %w", err)
	}
	return func(ctx context.Context) {
		if number > 0 {
			// Two that come first at once would get in each other's way, which is no fault of the API server.
			select {
			case <-ctx.Done():
				return
			case <-p.election.begun:
			}
		}
		// What it would log is counted, too.
		ctx = klog.NewContext(ctx, logr.Discard())
		for ctx.Err() == nil {
			elector, err := leaderelection.NewLeaderElector(config)
			if err != nil {
				p.leadershipLost(identity, err)
				return
			}
			elector.Run(ctx)
			if ctx.Err() == nil {
				p.leadershipLost(identity, errors.New("its Lease was not renewed in time"))
			}
		}
	}, nil
}

// leadershipLost counts that a leader had to step down.
func (p *Probe) leadershipLost(identity string, err error) {
	r := request{verbLead, kindLease, identity}
	p.counters.leadershipLost.Add(1)
	p.counters.writes.Add(1)
	p.kinds.sent(r)
	p.kinds.failed(r, err)
	p.failed(kindWrite, fmt.Errorf("failed to %s: %w", r, err))
}

// electionKept checks that the Lease of the election is at least as new as what was acknowledged.
func (p *Probe) electionKept(ctx context.Context) (bool, error) {
	if p.election.unborn() {
		return true, nil
	}
	lease, err := p.admin.leases.Leases(p.namespace).Get(ctx, electionName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("failed to get Lease %s: %w", electionName, err)
	}
	return lease.Spec.RenewTime != nil && p.election.asNewAs(lease.Spec.RenewTime.Time), nil
}
