// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// fronts are the fronts of both etcds. They write down what they are asked for, in the order of all other events.
type fronts struct {
	*seeds

	lock sync.Mutex
	// refusals is how many of the next requests of each kind are refused; negative are all.
	refusals map[string]int
	// onHold runs while requests are held.
	onHold func()
	// drained are the ordinals that nothing is led to, by role.
	drained map[string]map[int]bool
	open    int
	// none reports that there are no fronts.
	none bool
}

// front is one of them.
type front struct {
	*fronts

	etcdRole string
}

var _ Front = (*front)(nil)

func newFronts(s *seeds) *fronts {
	return &fronts{seeds: s, refusals: map[string]int{}, drained: map[string]map[int]bool{"main": {}, "events": {}}}
}

// in makes them the fronts of a Joint.
func (f *fronts) in(config *Config) {
	config.Front = func(_ context.Context, etcdRole string) (Front, error) {
		if err := f.refuse("open"); err != nil {
			return nil, err
		}
		f.lock.Lock()
		defer f.lock.Unlock()
		if f.none {
			return nil, nil
		}
		f.open++
		return &front{fronts: f, etcdRole: etcdRole}, nil
	}
}

func (f *fronts) refuse(what string) error {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.refusals[what] == 0 {
		return nil
	}
	f.refusals[what]--
	return errors.New("refused to " + what)
}

func (f *front) Hold(context.Context, time.Duration) (func(), error) {
	if err := f.refuse("hold"); err != nil {
		f.event("did not hold " + f.etcdRole)
		return nil, err
	}
	f.event("held " + f.etcdRole)
	if f.onHold != nil {
		f.onHold()
	}
	return sync.OnceFunc(func() { f.event("released " + f.etcdRole) }), nil
}

func (f *front) Drain(_ context.Context, ordinal int, _ time.Duration) error {
	return f.steer("drain", ordinal, true)
}

func (f *front) Restore(_ context.Context, ordinal int) error {
	return f.steer("restore", ordinal, false)
}

func (f *front) steer(what string, ordinal int, drained bool) error {
	if err := f.refuse(what); err != nil {
		return err
	}
	f.lock.Lock()
	f.drained[f.etcdRole][ordinal] = drained
	f.lock.Unlock()
	f.event(fmt.Sprintf("%sed %s %d", strings.TrimSuffix(what, "e"), f.etcdRole, ordinal))
	return nil
}

func (f *front) Close() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.open--
	return nil
}

// leapingClock does not wait: its time passes at once.
type leapingClock struct {
	*testclock.FakeClock

	// onWait, if set, runs with each wait.
	onWait func()
}

func newLeapingClock() *leapingClock {
	return &leapingClock{FakeClock: testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC))}
}

func (c *leapingClock) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	if c.onWait != nil {
		c.onWait()
	}
	fired := make(chan time.Time, 1)
	fired <- c.Now()
	return fired
}

// movingCluster writes down when leadership moves, and may fail to move it.
type movingCluster struct {
	*fakecluster.Cluster
	*seeds

	err error
	// moves reports that leadership moves although there is an error.
	moves bool
}

func (c *movingCluster) MoveLeader(ctx context.Context, leader etcdclient.Member, to uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.event("moved leadership")
	if c.err != nil && !c.moves {
		return c.err
	}
	return errors.Join(c.err, c.Cluster.MoveLeader(ctx, leader, to))
}

var _ = Describe("leadership under a hold", func() {
	var (
		ctx     = context.Background()
		s       *seeds
		f       *fronts
		cluster *movingCluster
		clock   *leapingClock
	)

	takeIn := func(ctx context.Context) error {
		j := s.joint(steps.Destination, f.in, func(c *Config) {
			c.Clock, c.FrontPatience = clock, 30*time.Second
			c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				if etcdRole == "main" {
					return cluster, nil
				}
				return s.clusters[etcdRole], nil
			}
		})
		_, err := j.TakeLeadership(ctx, "main")
		return err
	}
	take := func() error { return takeIn(ctx) }
	happened := func() []string {
		var out []string
		for _, e := range s.happened() {
			if e != "removed seed-a-etcd-main-2" && e != "removed seed-a-etcd-events-2" {
				out = append(out, e)
			}
		}
		return out
	}

	BeforeEach(func() {
		s = newSeeds()
		f, clock = newFronts(s), newLeapingClock()
		for _, etcdRole := range []string{"main", "events"} {
			s.joinDestination(etcdRole, 3)
			s.removeSource(etcdRole, 2)
		}
		cluster = &movingCluster{Cluster: s.clusters["main"], seeds: s}
	})
	AfterEach(func() { Expect(f.open).To(BeZero(), "what was opened is closed") })

	It("should move while requests are held, and let them go then", func() {
		Expect(take()).To(Succeed())
		Expect(happened()).To(Equal([]string{"held main", "moved leadership", "released main"}))
		Expect(cluster.Leader()).To(Equal("seed-b-etcd-main-0"))
	})

	It("should not end between holding requests and letting them go, whoever ends the step", func() {
		ending, end := context.WithCancel(ctx)
		f.onHold = end
		Expect(takeIn(ending)).To(Succeed())
		Expect(happened()).To(Equal([]string{"held main", "moved leadership", "released main"}))
		Expect(cluster.Leader()).To(Equal("seed-b-etcd-main-0"))
	})

	It("should try again when requests do not end", func() {
		f.refusals["hold"] = 2
		Expect(take()).To(Succeed())
		Expect(happened()).To(Equal(
			[]string{"did not hold main", "did not hold main", "held main", "moved leadership", "released main"}))
	})

	DescribeTable("moves without a hold after a while", func(what string) {
		f.refusals[what] = -1
		begin := clock.Now()
		Expect(take()).To(Succeed())
		Expect(happened()).NotTo(ContainElement("held main"))
		Expect(happened()).To(ContainElement("moved leadership"))
		Expect(cluster.Leader()).To(Equal("seed-b-etcd-main-0"))
		Expect(clock.Since(begin)).To(BeNumerically(">=", 30*time.Second))
	},
		Entry("when requests never end", "hold"),
		Entry("when the front does not answer", "open"),
	)

	It("should not wait where there is no front", func() {
		begin := clock.Now()
		f.none = true
		Expect(take()).To(Succeed())
		Expect(happened()).To(Equal([]string{"moved leadership"}))
		Expect(clock.Since(begin)).To(BeNumerically("<", 30*time.Second))
	})

	It("should not wait for a moment when requests are held, however much the source writes", func() {
		clock.onWait = func() { cluster.Commit(1) }
		begin := clock.Now()
		Expect(take()).To(Succeed())
		Expect(happened()).To(Equal([]string{"held main", "moved leadership", "released main"}))
		Expect(clock.Since(begin)).To(BeNumerically("<", time.Second))
	})

	It("should wait for a moment without writes where there is no front", func() {
		f.none = true
		var writes, before int
		clock.onWait = func() {
			if writes < 10 {
				writes++
				cluster.Commit(1)
			}
		}
		s.onEvent = func(string) { before = writes }
		Expect(take()).To(Succeed())
		Expect(happened()).To(Equal([]string{"moved leadership"}))
		Expect(before).To(Equal(10))
	})

	It("should not wait for long for a moment without writes", func() {
		f.none = true
		clock.onWait = func() { cluster.Commit(1) }
		begin := clock.Now()
		Expect(take()).To(Succeed())
		Expect(happened()).To(Equal([]string{"moved leadership"}))
		Expect(clock.Since(begin)).To(BeNumerically("~", 2*time.Second, time.Second))
	})

	It("should not move to a member that has not caught up where there is no front, either", func() {
		f.none = true
		s.clusters["main"].SetBehind("seed-b-etcd-main-0", 1000)
		Expect(take()).To(MatchError(ContainSubstring("has not caught up")))
		Expect(happened()).To(BeEmpty())
	})

	It("should move to a member that has what the leader had a round trip ago", func() {
		s.clusters["main"].SetBehind("seed-b-etcd-main-0", 3)
		clock.onWait = func() { cluster.Commit(3) }
		Expect(take()).To(Succeed())
		Expect(happened()).To(Equal([]string{"held main", "moved leadership", "released main"}))
	})

	It("should let requests go when leadership does not move, and say why", func() {
		cluster.err = errors.New("no transfer")
		Expect(take()).To(MatchError(And(ContainSubstring("failed to transfer leadership of etcd-main"),
			ContainSubstring("no transfer"), ContainSubstring("does not lead"))))
		Expect(happened()).To(Equal([]string{"held main", "moved leadership", "released main"}))
		Expect(cluster.Leader()).To(Equal("seed-a-etcd-main-0"))
	})

	It("should believe the members, not the answer", func() {
		cluster.err, cluster.moves = context.DeadlineExceeded, true
		Expect(take()).To(Succeed())
		Expect(cluster.Leader()).To(Equal("seed-b-etcd-main-0"))
	})

	DescribeTable("does not move when things have changed under the hold", func(change func(), message string) {
		f.onHold = change
		Expect(take()).To(MatchError(ContainSubstring(message)))
		Expect(happened()).To(Equal([]string{"held main", "released main"}))
	},
		Entry("another member leads", func() { s.lead("main", "seed-a-etcd-main-1") }, "does not lead any more"),
		Entry("the next one is far behind", func() { s.clusters["main"].SetBehind("seed-b-etcd-main-0", 1000) },
			"has not caught up"),
		Entry("the next one lacks a few entries", func() { s.clusters["main"].SetBehind("seed-b-etcd-main-0", 3) },
			"has not caught up: it has applied entry 0, the leader has committed 3"),
		Entry("the next one is down", func() { s.clusters["main"].SetUp("seed-b-etcd-main-0", false) }, "refused"),
	)

	It("should look again before each hold", func() {
		f.refusals["hold"] = 1
		s.onEvent = func(text string) {
			if text == "did not hold main" {
				for ordinal := range 3 {
					s.clusters["main"].SetUp(memberName("seed-b", "main", ordinal), false)
				}
			}
		}
		Expect(take()).NotTo(Succeed())
		Expect(happened()).To(Equal([]string{"did not hold main"}))
	})
})
