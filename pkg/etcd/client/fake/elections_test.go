// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/client/fake"
)

var _ = Describe("Elections and cuts", func() {
	var (
		ctx = context.Background()
		c   *Cluster
	)

	url := func(name string) string { return "https://" + name + ":2380" }
	byName := func(name string) MemberState {
		GinkgoHelper()
		for _, m := range c.Members() {
			if m.Name == name {
				return m
			}
		}
		Fail("no member " + name)
		return MemberState{}
	}

	BeforeEach(func() {
		c = New(url, "a0", "a1", "a2", "b0", "b1")
		// The zone is the first letter of the name.
		c.SetZones(func(m etcdclient.Member) string { return strings.TrimPrefix(m.PeerURLs[0], "https://")[:1] })
	})

	It("should have no leader, and answer nothing, until one is elected", func() {
		c.HoldElections()
		c.SetUp("a0", false)
		Expect(c.Leader()).To(BeEmpty())
		_, err := c.List(ctx)
		Expect(err).To(MatchError(ErrTimeout))
		Expect(c.Elect(byName("a0").ID)).To(MatchError(ErrNotElected), "it is down")
		Expect(c.Elect(byName("b1").ID)).To(Succeed())
		Expect(c.Leader()).To(Equal("b1"))
		_, err = c.List(ctx)
		Expect(err).NotTo(HaveOccurred())
	})

	It("should not elect a member that lacks what a majority has", func() {
		c.HoldElections()
		c.SetUp("b0", false)
		Expect(c.Write()).To(Succeed())
		c.SetUp("b0", true)
		Expect(byName("b0").Behind).To(BeEquivalentTo(1))
		Expect(c.Electable(byName("b0").ID)).To(BeFalse())
		Expect(c.Elect(byName("b0").ID)).To(MatchError(ErrNotElected))
		c.CatchUp(byName("b0").ID)
		Expect(c.Elect(byName("b0").ID)).To(Succeed())
		Expect(c.Lost()).To(BeZero())
	})

	It("should count what is lost when a majority has lost its data", func() {
		c.HoldElections()
		c.SetUp("b0", false)
		c.SetUp("b1", false)
		Expect(c.Write()).To(Succeed())
		// Nobody is left who has the entry.
		for _, name := range []string{"a1", "a2"} {
			c.SetUp(name, false)
			c.SetBehind(name, 1)
		}
		c.SetUp("a0", false)
		for _, name := range []string{"a1", "b0", "b1"} {
			c.SetUp(name, true)
		}
		Expect(c.Elect(byName("b0").ID)).To(Succeed())
		Expect(c.Lost()).To(BeEquivalentTo(1))
	})

	It("should answer where the quorum is while the zones are cut, and nobody else", func() {
		c.SetCut(true)
		_, err := c.From("a").List(ctx)
		Expect(err).NotTo(HaveOccurred())
		_, err = c.From("b").List(ctx)
		Expect(err).To(MatchError(ErrTimeout))
		Expect(byName("b0").Connected).To(BeFalse())

		_, err = c.From("a").Status(ctx, byName("b0").Member)
		Expect(err).To(MatchError(ErrDown))
		status, err := c.From("b").Status(ctx, byName("b0").Member)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.LeaderID).To(BeZero(), "it knows no leader")
		Expect(c.From("b").Promote(ctx, 1)).To(MatchError(ErrTimeout))
		Expect(c.From("b").Remove(ctx, byName("b0").ID)).To(MatchError(ErrTimeout))
		Expect(c.From("b").Health(ctx)).To(MatchError(ErrTimeout))
		_, err = c.From("b").ListOf(ctx, byName("b0").Member)
		Expect(err).NotTo(HaveOccurred())

		c.SetUp("a0", false)
		_, err = c.From("a").List(ctx)
		Expect(err).To(MatchError(ErrTimeout), "two of five are no quorum, and the three others are apart")
		c.SetCut(false)
		_, err = c.From("b").List(ctx)
		Expect(err).NotTo(HaveOccurred())
	})

	It("should refuse a learner while a voter is cut off", func() {
		c.SetCut(true)
		_, err := c.AddLearner("https://a3:2380")
		Expect(err).To(MatchError(etcdclient.ErrUnhealthy))
	})

	It("should have copies that nothing connects", func() {
		copied := c.Clone()
		Expect(copied.Fingerprint()).To(Equal(c.Fingerprint()))
		Expect(copied.Version()).To(Equal(c.Version()))
		copied.SetUp("b0", false)
		Expect(copied.Remove(ctx, byName("b0").ID)).To(Succeed())
		Expect(copied.Names()).To(HaveLen(4))
		Expect(c.Names()).To(HaveLen(5))
		Expect(copied.Fingerprint()).NotTo(Equal(c.Fingerprint()))
		Expect(copied.Version()).To(BeNumerically(">", c.Version()))
	})

	It("should have the same fingerprint whatever the identifiers of its members are", func() {
		before := c.Fingerprint()
		c.SetUp("b1", false)
		Expect(c.Fingerprint()).NotTo(Equal(before))
		Expect(c.Remove(ctx, byName("b1").ID)).To(Succeed())
		id, err := c.AddLearner(url("b1"))
		Expect(err).NotTo(HaveOccurred())
		c.Start(id, "b1")
		Expect(c.Fingerprint()).NotTo(Equal(before), "it is a learner")
		c.CatchUp(id)
		Expect(c.Promote(ctx, id)).To(Succeed())
		Expect(c.Fingerprint()).To(Equal(before))
	})
})
