// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// slowLead is a cluster whose leadership moves only when it is told to.
type slowLead struct {
	etcdclient.Cluster

	etcdRole string
	moving   chan<- string
	goOn     <-chan struct{}
	asked    atomic.Int32
}

func (c *slowLead) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	c.asked.Add(1)
	return c.Cluster.Status(ctx, member)
}

func (c *slowLead) MoveLeader(ctx context.Context, leader etcdclient.Member, to uint64) error {
	c.moving <- c.etcdRole
	<-c.goOn
	return c.Cluster.MoveLeader(ctx, leader, to)
}

var _ = Describe("leadership of both clusters", func() {
	var (
		s        *seeds
		j        *Joint
		clusters map[string]*slowLead
		moving   chan string
		goOn     chan struct{}
		done     chan error
	)

	BeforeEach(func() {
		s = newSeeds()
		moving, goOn, done = make(chan string, 2), make(chan struct{}), make(chan error, 1)
		clusters = map[string]*slowLead{}
		for _, etcdRole := range naming.EtcdRoles {
			s.joinDestination(etcdRole, 2)
			s.lead(etcdRole, memberName("seed-a", etcdRole, 2))
			clusters[etcdRole] = &slowLead{Cluster: s.clusters[etcdRole], etcdRole: etcdRole, moving: moving,
				goOn: goOn}
		}
		j = s.joint(steps.Destination, func(c *Config) {
			c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				return clusters[etcdRole], nil
			}
		})
	})

	It("should move one after the other", func(ctx SpecContext) {
		go func() { done <- j.SpareFirstToLeave(ctx) }()
		var first string
		Eventually(moving).Should(Receive(&first))
		second := clusters[map[string]string{"main": "events", "events": "main"}[first]]

		// It has looked at all of its members.
		Eventually(second.asked.Load).Should(BeNumerically(">=", 5))
		Expect(moving).NotTo(Receive(), "leadership of the other one is moving")

		goOn <- struct{}{}
		Eventually(moving).Should(Receive(Equal(second.etcdRole)))
		Expect(s.clusters[first].Leader()).To(HaveSuffix("-0"), "only now")
		goOn <- struct{}{}
		Eventually(done).Should(Receive(BeNil()))
		Expect(s.clusters[second.etcdRole].Leader()).To(HaveSuffix("-0"))
	})

	It("should not keep one of them because of the other", func(ctx SpecContext) {
		close(goOn)
		for _, name := range s.clusters["main"].Names() {
			s.clusters["main"].SetUp(name, false)
		}
		Expect(j.SpareFirstToLeave(ctx)).NotTo(Succeed())
		Expect(s.clusters["events"].Leader()).To(HaveSuffix("-0"))
	})

	It("should give up with the context while the other one moves", func(ctx SpecContext) {
		ended, end := context.WithCancelCause(ctx)
		go func() { done <- j.SpareFirstToLeave(ended) }()
		Eventually(moving).Should(Receive())
		end(errors.New("no time left"))
		close(goOn)
		Eventually(done).Should(Receive(MatchError(context.Canceled)))
		Expect(moving).NotTo(Receive())
	})
})
