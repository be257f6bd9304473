// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/seedpods"
)

// located is a cluster whose members are located before each question, as those of a real one are.
type located struct {
	etcdclient.Cluster

	locator etcdclient.Locator
}

func (c *located) List(ctx context.Context) (etcdclient.Membership, error) {
	if _, err := c.locator.Service(ctx); err != nil {
		return etcdclient.Membership{}, err
	}
	return c.Cluster.List(ctx)
}

func (c *located) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	if _, err := c.locator.Member(ctx, member); err != nil {
		return etcdclient.Status{}, err
	}
	return c.Cluster.Status(ctx, member)
}

func (c *located) MoveLeader(ctx context.Context, leader etcdclient.Member, to uint64) error {
	if _, err := c.locator.Member(ctx, leader); err != nil {
		return err
	}
	return c.Cluster.MoveLeader(ctx, leader, to)
}

var _ = Describe("look-ups of members", func() {
	var (
		s *seeds
		j *Joint
		// onLookup runs when a pod is read, and onPod is told which one.
		onLookup func()
		onPod    func(name string)
	)

	BeforeEach(func() { onPod = nil })

	open := func(role steps.Role, mutate ...func(*Config)) {
		counted := interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
				opts ...client.GetOption) error {
				if _, ok := obj.(*corev1.Pod); ok {
					onLookup()
					if onPod != nil {
						onPod(key.Name)
					}
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		j = s.joint(role, append(mutate, func(c *Config) {
			c.Client = counted
			open := c.NewCluster
			c.NewCluster = func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error) {
				cluster, err := open(ctx, etcdRole)
				return &located{Cluster: cluster, locator: NewLocator(j, etcdRole)}, err
			}
		})...)
	}

	It("should not make a hold longer", func(ctx SpecContext) {
		s = newSeedsOf("seed-b")
		f := newFronts(s)
		var (
			held            atomic.Bool
			before, lookups atomic.Int32
		)
		s.onEvent = func(text string) { held.Store(text == "held main") }
		onLookup = func() {
			if held.Load() {
				lookups.Add(1)
			}
			before.Add(1)
		}
		for _, etcdRole := range []string{"main", "events"} {
			s.joinDestination(etcdRole, 3)
			s.removeSource(etcdRole, 2)
		}
		open(steps.Destination, f.in)
		Expect(j.TakeLeadership(ctx, "main")).To(BeEmpty())
		Expect(s.happened()).To(ContainElements("held main", "released main"))
		Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		Expect(lookups.Load()).To(BeZero())
		Expect(before.Load()).To(BeNumerically(">", 0))
	})

	It("should not count as a part of the distance to the leader", func(ctx SpecContext) {
		s = newSeeds()
		clock := clocktesting.NewFakeClock(time.Now())
		onLookup = func() { clock.Step(time.Second) }
		open(steps.Source, func(c *Config) {
			c.Clock = clock
			c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				cluster := &farLeader{Cluster: s.clusters[etcdRole], clock: clock}
				if etcdRole == "main" {
					cluster.way = 10 * time.Millisecond
				}
				return cluster, nil
			}
		})
		distance, err := j.LeaderDistance(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(distance).To(Equal(10 * time.Millisecond))
	})

	Context("while they are followed", func() {
		var (
			lock sync.Mutex
			read []string
		)

		// lookups returns the pods that were read since it was asked last.
		lookups := func() []string {
			lock.Lock()
			defer lock.Unlock()
			defer func() { read = nil }()
			return read
		}
		observe := func(ctx context.Context) []string {
			GinkgoHelper()
			lookups()
			_, err := j.Observe(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			return lookups()
		}

		BeforeEach(func() {
			s = newSeeds()
			onLookup = func() {}
			onPod = func(name string) {
				lock.Lock()
				defer lock.Unlock()
				read = append(read, name)
			}
			open(steps.Source, func(c *Config) { c.Pods = seedpods.New(s.client, namespace) })
		})

		It("should ask nobody for a pod in a wait that lasts", func(ctx SpecContext) {
			var quiet atomic.Int32
			ctxOfWait, cancel := context.WithTimeout(ctx, patience.Eventually)
			defer cancel()
			lookups()
			Expect(j.Each(ctxOfWait, func(ctx context.Context, etcdRole string) (Progress, error) {
				if etcdRole != "main" {
					return Progress{Done: true}, nil
				}
				if _, err := j.Observe(ctx, etcdRole); err != nil {
					return Progress{}, err
				}
				if len(lookups()) == 0 {
					quiet.Add(1)
				}
				return Progress{Done: quiet.Load() == 3, Message: "looking"}, nil
			})).To(Succeed())
			Expect(observe(ctx)).To(HaveLen(6), "nobody follows them after the wait")
		})

		It("should find them where they have gone", func(ctx SpecContext) {
			followed, end := j.FollowPods(ctx)
			defer end()
			Eventually(func() []string { return observe(followed) }).Should(BeEmpty())
			lookups()
			Eventually(func(g Gomega) {
				// Again and again: the fake watch tells only what happens after it has begun.
				moved := pod("etcd-main-1")
				g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(moved), moved)).To(Succeed())
				moved.Status.PodIP, moved.Status.Message = "10.0.0.9", moved.Status.Message+"again "
				g.Expect(s.client.Status().Update(ctx, moved)).To(Succeed())
				endpoint, err := NewLocator(j, "main").Member(followed, etcdclient.Member{Name: "seed-a-etcd-main-1"})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(endpoint.Address).To(Equal("10.0.0.9:2379"))
			}).Should(Succeed())
			Expect(lookups()).To(BeEmpty())
		})

		It("should look those up that have not answered", func(ctx SpecContext) {
			followed, end := j.FollowPods(ctx)
			defer end()
			Eventually(func() []string { return observe(followed) }).Should(BeEmpty())
			s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
			Expect(observe(followed)).To(BeEmpty(), "it was believed until now")
			Expect(observe(followed)).To(ConsistOf("etcd-main-1"))

			By("doubting all when nobody answers for the cluster")
			s.clusters["main"].SetUp("seed-a-etcd-main-0", false)
			lookups()
			for range 2 {
				_, err := j.Observe(followed, "main")
				Expect(err).To(HaveOccurred())
			}
			Expect(lookups()).To(ContainElements("etcd-main-0", "etcd-main-1", "etcd-main-2"))
		})

		It("should look those up that are not known", func(ctx SpecContext) {
			unlabelled := pod("etcd-main-2")
			Expect(s.client.Get(ctx, client.ObjectKeyFromObject(unlabelled), unlabelled)).To(Succeed())
			unlabelled.Labels = nil
			Expect(s.client.Update(ctx, unlabelled)).To(Succeed())
			followed, end := j.FollowPods(ctx)
			defer end()
			Eventually(func() []string { return observe(followed) }).Should(HaveLen(2))
			Expect(observe(followed)).To(HaveEach("etcd-main-2"))
		})
	})
})
