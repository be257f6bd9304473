// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/defragmentation"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// unmeasured is a cluster whose members cannot be asked whether they are being defragmented.
type unmeasured struct {
	etcdclient.Cluster

	err   error
	lock  sync.Mutex
	asked []string
}

func (c *unmeasured) Defragmenting(_ context.Context, member etcdclient.Member) (bool, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.asked = append(c.asked, member.Name)
	return false, c.err
}

var _ = Describe("A defragmentation", func() {
	const begun = "seed-b-etcd-main-1"
	var (
		ctx   = context.Background()
		s     *seeds
		f     *fronts
		clock *leapingClock
		keep  = func(context.Context) error { return nil }
	)

	open := func(role steps.Role, mutate ...func(*Config)) *Joint {
		return s.joint(role, append(mutate, func(c *Config) { c.Clock = clock })...)
	}
	defragment := func(yes bool) { s.clusters["main"].SetDefragmenting(begun, yes) }
	// schedule lets the defragmentation of etcd-main be due in that time.
	schedule := func(in time.Duration) {
		GinkgoHelper()
		due := clock.Now().UTC().Add(in)
		etcd := &druidcorev1alpha1.Etcd{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, etcd)).To(Succeed())
		etcd.Spec.Etcd.DefragmentationSchedule = new(fmt.Sprintf("%d %d * * *", due.Minute(), due.Hour()))
		Expect(s.client.Update(ctx, etcd)).To(Succeed())
	}
	replicas := func() int32 {
		GinkgoHelper()
		statefulSet := &appsv1.StatefulSet{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, statefulSet)).
			To(Succeed())
		return *statefulSet.Spec.Replicas
	}
	through := func(cluster etcdclient.Cluster) func(*Config) {
		return func(c *Config) {
			c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				if etcdRole == "main" {
					return cluster, nil
				}
				return s.clusters[etcdRole], nil
			}
		}
	}

	BeforeEach(func() {
		s, clock = newSeeds(), newLeapingClock()
		f = newFronts(s)
	})

	Context("when leadership is to move", func() {
		BeforeEach(func() {
			for _, etcdRole := range naming.EtcdRoles {
				s.joinDestination(etcdRole, 3)
				s.removeSource(etcdRole, 2)
			}
		})

		It("should keep it where it is until it is over", func() {
			j := open(steps.Destination, f.in)
			defragment(true)
			_, err := j.TakeLeadership(ctx, "main")
			Expect(err).To(MatchError("leadership of etcd-main does not move: etcd-main: seed-b-etcd-main-1 is being " +
				"defragmented"))
			Expect(defragmentation.Is(err)).To(BeTrue())
			Expect(s.happened()).NotTo(ContainElement("held main"))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))

			defragment(false)
			clock.Step(5 * time.Second)
			Expect(j.TakeLeadership(ctx, "main")).To(BeEmpty())
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		})

		It("should keep it where it is as long as one is about to begin", func() {
			schedule(time.Minute)
			j := open(steps.Destination, f.in)
			_, err := j.TakeLeadership(ctx, "main")
			Expect(err).To(MatchError(
				ContainSubstring("etcd-main: a defragmentation is scheduled for 2026-03-04T05:07")))
			Expect(s.happened()).NotTo(ContainElement("held main"))

			clock.Step(4*time.Minute + time.Second)
			Expect(j.TakeLeadership(ctx, "main")).To(BeEmpty())
		})

		It("should keep it where it is as long as nobody knows", func() {
			_, err := open(steps.Destination, f.in,
				through(&unmeasured{Cluster: s.clusters["main"], err: errors.New("no route")})).TakeLeadership(ctx,
				"main")
			Expect(err).To(MatchError(And(ContainSubstring("it is not known whether a member is being defragmented"),
				ContainSubstring("no route"))))
			Expect(s.happened()).NotTo(ContainElement("held main"))
		})

		It("should not be guessed of members that publish nothing about it", func() {
			Expect(open(steps.Destination, f.in,
				through(&unmeasured{Cluster: s.clusters["main"], err: etcdclient.ErrNoMetric})).
				TakeLeadership(ctx, "main")).To(BeEmpty())
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		})

		It("should not be asked of a member that is down, which may be lost for good", func() {
			s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
			cluster := &unmeasured{Cluster: s.clusters["main"]}
			Expect(open(steps.Destination, f.in, through(cluster)).TakeLeadership(ctx, "main")).To(BeEmpty())
			Expect(cluster.asked).To(ConsistOf("seed-a-etcd-main-0", "seed-b-etcd-main-0", "seed-b-etcd-main-1",
				"seed-b-etcd-main-2"))
		})
	})

	Context("when a member is to stop", func() {
		retire := func(j *Joint) error {
			_, err := j.RetireNext(ctx, "main", keep)
			return err
		}

		It("should keep it with five voters for as long as it takes", func() {
			s.retireSource("events", 0)
			s.retireSource("main", 2)
			j := open(steps.Source)
			Expect(retire(j)).To(Succeed(), "what is left of the member that has gone")
			defragment(true)
			for range 20 {
				Expect(retire(j)).To(MatchError("member seed-a-etcd-main-1 does not stop yet: etcd-main: " +
					"seed-b-etcd-main-1 is being defragmented"))
				clock.Step(time.Minute)
			}
			Expect(replicas()).To(Equal(int32(2)))
			Expect(s.deletions()).To(BeEmpty())

			defragment(false)
			Expect(retire(j)).To(Succeed())
			Expect(replicas()).To(Equal(int32(1)))
		})

		It("should say so in the condition", func(ctx SpecContext) {
			s.retireSource("events", 0)
			s.retireSource("main", 2)
			defragment(true)
			ended, end := context.WithCancel(ctx)
			var reasons []steps.Reason
			Expect(open(steps.Source).Retire(ended, keep,
				func(_ context.Context, reason steps.Reason, message string) error {
					reasons = append(reasons, reason)
					if reason == steps.ReasonEtcdDefragmenting {
						Expect(message).To(ContainSubstring("seed-b-etcd-main-1 is being defragmented"))
						end()
					}
					return nil
				})).NotTo(Succeed())
			Expect(reasons).To(ContainElement(steps.ReasonEtcdDefragmenting))
			Expect(s.deletions()).To(BeEmpty())
		})

		It("should not prolong the time with six voters by more than half a minute", func() {
			s.joinDestination("main", 3)
			defragment(true)
			j := open(steps.Source)
			for range 6 {
				Expect(retire(j)).To(MatchError(ContainSubstring("is being defragmented")))
				clock.Step(5 * time.Second)
			}
			Expect(replicas()).To(Equal(int32(3)))
			Expect(retire(j)).To(Succeed())
			Expect(replicas()).To(Equal(int32(2)))
		})

		It("should not prolong the time with six voters at all if it has not begun", func() {
			s.joinDestination("main", 3)
			schedule(time.Minute)
			Expect(retire(open(steps.Source))).To(Succeed())
			Expect(replicas()).To(Equal(int32(2)))
		})

		It("should be waited for with six voters, one of which is down: otherwise nobody could write", func() {
			s.joinDestination("main", 3)
			s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
			defragment(true)
			j := open(steps.Source)
			for range 20 {
				Expect(retire(j)).To(MatchError(ContainSubstring("is being defragmented")))
				clock.Step(10 * time.Second)
			}
			defragment(false)
			Expect(retire(j)).To(Succeed())
			Expect(replicas()).To(Equal(int32(2)))
		})

		It("should keep members of the destination in an abort, too", func() {
			s = newSeedsOf("seed-b")
			s.joinDestination("main", 2)
			s.clusters["main"].SetDefragmenting("seed-a-etcd-main-0", true)
			j := open(steps.Destination)
			for range 3 {
				_, err := j.WithdrawNext(ctx, "main")
				if err != nil {
					Expect(err).To(MatchError(ContainSubstring("seed-a-etcd-main-0 is being defragmented")))
				}
			}
			Expect(s.clusters["main"].Names()).To(HaveLen(5))
			Expect(s.deletions()).To(BeEmpty())
		})

		It("should restart no member", func() {
			s = newSeedsOf("seed-b")
			f = newFronts(s)
			for _, etcdRole := range naming.EtcdRoles {
				s.retireSource(etcdRole, 0)
				etcd := &druidcorev1alpha1.Etcd{}
				Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)},
					etcd)).To(Succeed())
				etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidcorev1alpha1.BootstrapWithExistingCluster{}
				Expect(s.client.Update(ctx, etcd)).To(Succeed())
			}
			defragment(true)
			err := open(steps.Destination, f.in).PrepareRoll(ctx)
			Expect(err).To(MatchError("failed to prepare the restart of etcd-main: member seed-b-etcd-main-2 does " +
				"not stop yet: etcd-main: seed-b-etcd-main-1 is being defragmented"))
			Expect(f.drained["main"]).To(BeEmpty())
		})
	})

	It("should be known before a member joins", func() {
		for _, etcdRole := range naming.EtcdRoles {
			s.joinDestination(etcdRole, 2)
		}
		j := open(steps.Destination)
		Expect(j.CheckDefragmentation(ctx)).To(Succeed())
		defragment(true)
		Expect(defragmentation.Is(j.CheckDefragmentation(ctx))).To(BeTrue())
		Expect(j.CheckDefragmentationOf(ctx, "events")).To(Succeed())

		for ordinal := range 3 {
			s.clusters["main"].SetUp(memberName("seed-a", "main", ordinal), false)
		}
		Expect(j.CheckDefragmentationOf(ctx, "main")).To(MatchError(ContainSubstring("it is not known whether")))
	})
})
