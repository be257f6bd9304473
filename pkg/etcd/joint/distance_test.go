// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// farLeader is a cluster whose source is some way off. Every third answer takes much longer than the way. Time passes
// on a clock of its own.
type farLeader struct {
	etcdclient.Cluster

	clock     *clocktesting.FakeClock
	way, busy time.Duration
	answers   atomic.Int32
	err       error
}

func (c *farLeader) Status(ctx context.Context, member etcdclient.Member) (etcdclient.Status, error) {
	if strings.HasPrefix(member.Name, "seed-a-") {
		c.clock.Step(c.way)
		if answer := c.answers.Add(1); answer%3 == 0 {
			c.clock.Step(c.busy)
		}
		if c.answers.Load() > 3 && c.err != nil {
			return etcdclient.Status{}, c.err
		}
	}
	return c.Cluster.Status(ctx, member)
}

var _ = Describe("LeaderDistance", func() {
	var (
		s        *seeds
		clusters map[string]*farLeader
		j        *Joint
	)

	BeforeEach(func() {
		s = newSeeds()
		clock := clocktesting.NewFakeClock(time.Now())
		clusters = map[string]*farLeader{}
		for _, etcdRole := range naming.EtcdRoles {
			s.joinDestination(etcdRole, 2)
			clusters[etcdRole] = &farLeader{Cluster: s.clusters[etcdRole], clock: clock}
		}
		j = s.joint(steps.Destination, func(c *Config) {
			c.Clock = clock
			c.NewCluster = func(_ context.Context, etcdRole string) (etcdclient.Cluster, error) {
				return clusters[etcdRole], nil
			}
		})
	})

	It("should be that of the leader that is farther away, however busy the nodes are", func(ctx SpecContext) {
		clusters["events"].way, clusters["events"].busy = 10*time.Millisecond, 500*time.Millisecond
		distance, err := j.LeaderDistance(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(distance).To(Equal(10 * time.Millisecond))
	})

	It("should not be known when a leader does not answer", func(ctx SpecContext) {
		clusters["main"].err = errors.New("no answer")
		_, err := j.LeaderDistance(ctx)
		Expect(err).To(MatchError(And(ContainSubstring("the leader of etcd-main"), ContainSubstring("no answer"))))
	})

	It("should not be known without a leader", func(ctx SpecContext) {
		for ordinal := range 3 {
			s.clusters["events"].SetUp(memberName("seed-a", "events", ordinal), false)
		}
		_, err := j.LeaderDistance(ctx)
		Expect(err).To(MatchError(ContainSubstring("the leader of etcd-events")))
	})
})
