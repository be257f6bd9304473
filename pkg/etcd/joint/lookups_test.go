// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
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
		// onLookup runs when a pod is read.
		onLookup func()
	)

	open := func(role steps.Role, mutate ...func(*Config)) {
		counted := interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
				opts ...client.GetOption) error {
				if _, ok := obj.(*corev1.Pod); ok {
					onLookup()
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
})
