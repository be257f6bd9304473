// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/overload"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// slowReads is a cluster whose reads take their time, on a clock of its own: one after the other, and the last one
// again and again.
type slowReads struct {
	etcdclient.Cluster

	clock *leapingClock
	take  []time.Duration
}

func (c *slowReads) Health(ctx context.Context) error {
	c.clock.Step(c.take[0])
	if len(c.take) > 1 {
		c.take = c.take[1:]
	}
	return c.Cluster.Health(ctx)
}

// silent is a cluster one of whose members does not answer in the time that it is waited for.
type silent struct {
	etcdclient.Cluster

	name string
}

func (c *silent) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	if member.Name == c.name {
		return etcdclient.Status{Took: 2 * time.Second}, context.DeadlineExceeded
	}
	return c.Cluster.Status(ctx, member)
}

// connecting is a cluster whose first answers have to wait for a connection.
type connecting struct {
	etcdclient.Cluster

	lock      sync.Mutex
	connected map[uint64]bool
}

func (c *connecting) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	status, err := c.Cluster.Status(ctx, member)
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.connected[member.ID] {
		c.connected[member.ID] = true
		status.Took = 3 * time.Second
	}
	return status, err
}

var _ = DescribeTable("The pause between two looks", func(took, pause time.Duration) {
	Expect(Pause(500*time.Millisecond, took)).To(Equal(pause))
},
	Entry("should be the interval while members answer at once", 20*time.Millisecond, 500*time.Millisecond),
	Entry("should be as long as a look that members have taken long for", 1200*time.Millisecond, 1200*time.Millisecond),
	Entry("should end, because six voters must not wait", 4*time.Second, 2*time.Second),
)

var _ = Describe("an overloaded seed", func() {
	const tooSlow = " answered in 2.3 s, more than 1 s: the seed is overloaded"
	var (
		ctx   = context.Background()
		s     *seeds
		f     *fronts
		clock *leapingClock
		keep  = func(context.Context) error { return nil }
	)

	slow := func(etcdRole string, names ...string) {
		for _, name := range names {
			s.clusters[etcdRole].SetTook(name, 2300*time.Millisecond)
		}
	}
	prompt := func(etcdRole string) {
		for _, name := range s.clusters[etcdRole].Names() {
			s.clusters[etcdRole].SetTook(name, 0)
		}
	}
	open := func(role steps.Role, mutate ...func(*Config)) *Joint {
		return s.joint(role, append(mutate, func(c *Config) { c.Clock = clock })...)
	}

	BeforeEach(func() { s, clock = newSeeds(), newLeapingClock() })

	Context("when leadership is to move", func() {
		BeforeEach(func() {
			f = newFronts(s)
			for _, etcdRole := range naming.EtcdRoles {
				s.joinDestination(etcdRole, 3)
				s.removeSource(etcdRole, 2)
			}
		})

		DescribeTable("keeps it where it is", func(who string, names ...string) {
			slow("main", names...)
			j := open(steps.Destination, f.in)
			_, err := j.TakeLeadership(ctx, "main")
			Expect(err).To(MatchError("leadership of etcd-main does not move: " + who + tooSlow))
			Expect(overload.Is(err)).To(BeTrue())
			Expect(s.happened()).NotTo(ContainElement("held main"))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))

			prompt("main")
			clock.Step(5 * time.Second)
			Expect(j.TakeLeadership(ctx, "main")).To(BeEmpty())
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"), "it is tried again")
		},
			Entry("while the one that leads is slow", "seed-a-etcd-main-0", "seed-a-etcd-main-0"),
			Entry("while the one that shall lead is", "seed-b-etcd-main-0", "seed-b-etcd-main-0"),
			Entry("while a majority is", "seed-a-etcd-main-1", "seed-a-etcd-main-1", "seed-b-etcd-main-1",
				"seed-b-etcd-main-2"),
		)

		It("should not be taken from a member that does not answer at all", func() {
			j := open(steps.Destination, f.in, func(c *Config) {
				c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
					return &silent{Cluster: s.clusters[etcdRole], name: "seed-a-etcd-main-0"}, nil
				}
			})
			_, err := j.TakeLeadership(ctx, "main")
			Expect(err).To(MatchError("leadership of etcd-main does not move: seed-a-etcd-main-0 did not answer " +
				"within 2.0 s: the seed is overloaded, or cannot be reached: context deadline exceeded"))
			Expect(s.happened()).NotTo(ContainElement("held main"))
		})

		It("should be moved while others are slow", func() {
			slow("main", "seed-a-etcd-main-1", "seed-b-etcd-main-1")
			Expect(open(steps.Destination, f.in).TakeLeadership(ctx, "main")).To(BeEmpty())
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		})

		DescribeTable("looks how long a read takes", func(take []time.Duration, message string) {
			j := open(steps.Destination, f.in, func(c *Config) {
				c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
					return &slowReads{Cluster: s.clusters[etcdRole], clock: clock, take: take}, nil
				}
			})
			_, err := j.TakeLeadership(ctx, "main")
			if message == "" {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(s.happened()).NotTo(ContainElement("held main"))
		},
			Entry("which comes in time", []time.Duration{time.Second}, ""),
			Entry("which has to wait for a connection", []time.Duration{4 * time.Second, 0}, ""),
			Entry("which comes too late", []time.Duration{1500 * time.Millisecond},
				"etcd-main answered in 1.5 s, more than 1 s: the seed is overloaded"),
		)

		It("should stay while clients wait too long for the kube-apiserver", func() {
			late := overload.Check("the kube-apiserver", 3*time.Second, nil)
			j := open(steps.Destination, f.in, func(c *Config) {
				c.Clients = func(context.Context) error { return late }
			})
			_, err := j.TakeLeadership(ctx, "main")
			Expect(err).To(MatchError("leadership of etcd-main does not move: the kube-apiserver answered in 3.0 s, " +
				"more than 1 s: the seed is overloaded"))
			Expect(overload.Is(err)).To(BeTrue())
			Expect(s.happened()).NotTo(ContainElement("held main"))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))

			late = nil
			Expect(j.TakeLeadership(ctx, "main")).To(BeEmpty())
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		})

		It("should be asked again after a pause only, so that the message does not change all the time", func() {
			j := open(steps.Destination, f.in)
			slow("main", "seed-b-etcd-main-0")
			_, first := j.TakeLeadership(ctx, "main")
			s.clusters["main"].SetTook("seed-b-etcd-main-0", 4*time.Second)
			clock.Step(4 * time.Second)
			_, second := j.TakeLeadership(ctx, "main")
			Expect(second).To(MatchError(first.Error()))
			clock.Step(time.Second)
			_, third := j.TakeLeadership(ctx, "main")
			Expect(third).To(MatchError(ContainSubstring("answered in 4.0 s")))
		})
	})

	Context("when a member is to leave", func() {
		replicas := func() int32 {
			GinkgoHelper()
			statefulSet := &appsv1.StatefulSet{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, statefulSet)).
				To(Succeed())
			return *statefulSet.Spec.Replicas
		}

		It("should keep it, and say so in the condition", func(ctx SpecContext) {
			s.retireSource("events", 0)
			s.retireSource("main", 2)
			slow("main", "seed-b-etcd-main-0", "seed-b-etcd-main-1")
			ended, end := context.WithCancel(ctx)
			var reasons []steps.Reason
			Expect(open(steps.Source).Retire(ended, keep,
				func(_ context.Context, reason steps.Reason, message string) error {
					if reason == steps.ReasonSeedOverloaded {
						Expect(message).To(ContainSubstring("member seed-a-etcd-main-1 does not stop yet: " +
							"seed-b-etcd-main-"))
						end()
					}
					reasons = append(reasons, reason)
					return nil
				})).NotTo(Succeed())
			Expect(reasons).To(ContainElement(steps.ReasonSeedOverloaded))
			Expect(s.deletions()).To(BeEmpty())
		})

		It("should keep it with five voters for as long as it takes", func() {
			s.retireSource("events", 0)
			s.retireSource("main", 2)
			slow("main", "seed-b-etcd-main-0")
			j := open(steps.Source)
			for range 2 {
				_, _ = j.RetireNext(ctx, "main", keep)
			}
			Expect(replicas()).To(Equal(int32(2)), "that of the one that was removed before")
			for range 100 {
				_, err := j.RetireNext(ctx, "main", keep)
				Expect(err).To(MatchError(ContainSubstring(tooSlow)))
				clock.Step(time.Minute)
			}
			Expect(replicas()).To(Equal(int32(2)))
			prompt("main")
			_, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(replicas()).To(Equal(int32(1)))
		})

		It("should not prolong the time with six voters by more than half a minute", func() {
			s.joinDestination("main", 3)
			slow("main", "seed-a-etcd-main-0")
			j := open(steps.Source)
			for range 6 {
				_, err := j.RetireNext(ctx, "main", keep)
				Expect(err).To(MatchError("member seed-a-etcd-main-2 does not stop yet: seed-a-etcd-main-0" + tooSlow))
				clock.Step(5 * time.Second)
			}
			Expect(replicas()).To(Equal(int32(3)))
			_, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(replicas()).To(Equal(int32(2)))
		})

		It("should let a slow member leave, and one that others do not need", func() {
			s.joinDestination("main", 3)
			slow("main", "seed-a-etcd-main-2", "seed-a-etcd-main-1")
			_, err := open(steps.Source).RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(replicas()).To(Equal(int32(2)))
		})

		It("should not take members of the destination out in an abort, either", func() {
			s = newSeedsOf("seed-b")
			s.joinDestination("main", 2)
			slow("main", "seed-a-etcd-main-0")
			j := open(steps.Destination)
			for range 3 {
				_, err := j.WithdrawNext(ctx, "main")
				if err != nil {
					Expect(err).To(MatchError(ContainSubstring(tooSlow)))
				}
			}
			Expect(s.clusters["main"].Names()).To(ContainElement("seed-b-etcd-main-1"))
			Expect(s.deletions()).To(BeEmpty())
		})
	})

	It("should be known before anything is begun", func() {
		j := open(steps.Destination)
		for _, etcdRole := range naming.EtcdRoles {
			s.joinDestination(etcdRole, 2)
		}
		Expect(j.CheckPrompt(ctx)).To(Succeed())
		slow("events", "seed-b-etcd-events-0", "seed-b-etcd-events-1")
		Expect(j.CheckPrompt(ctx)).To(Succeed(), "three of five answer soon")
		slow("events", "seed-a-etcd-events-1")
		err := j.CheckPrompt(ctx)
		Expect(overload.Is(err)).To(BeTrue())
		Expect(err).To(MatchError(ContainSubstring(tooSlow)))
	})

	It("should not be told by the time for a connection", func() {
		j := open(steps.Destination, func(c *Config) {
			c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				return &connecting{Cluster: s.clusters[etcdRole], connected: map[uint64]bool{}}, nil
			}
		})
		Expect(j.CheckPrompt(ctx)).To(Succeed())
	})

	It("should not be what is wrong with a cluster without a quorum", func() {
		for ordinal := range 2 {
			s.clusters["main"].SetUp(memberName("seed-a", "main", ordinal), false)
		}
		err := open(steps.Destination).CheckPrompt(ctx)
		Expect(err).To(HaveOccurred())
		Expect(overload.Is(err)).To(BeFalse())
	})
})
