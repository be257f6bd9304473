// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/client/fake"
)

var _ = Describe("Cluster", func() {
	var (
		ctx = context.Background()
		c   *Cluster
	)

	url := func(name string) string { return "https://" + name + ":2380" }
	byName := func(name string) etcdclient.Member {
		GinkgoHelper()
		list, err := c.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, m := range list.Members {
			if m.Name == name {
				return m
			}
		}
		Fail("no member " + name)
		return etcdclient.Member{}
	}
	learner := func(name string) uint64 {
		GinkgoHelper()
		id, err := c.AddLearner(url(name))
		Expect(err).NotTo(HaveOccurred())
		c.Start(id, name)
		return id
	}

	BeforeEach(func() { c = New(url, "a", "b", "c") })

	It("should refuse a peer URL that a member has", func() {
		_, err := c.AddLearner(url("b"))
		Expect(err).To(MatchError(ErrPeerURLExists))
	})

	It("should tell every member of an alarm that one of them raised", func() {
		c.RaiseAlarm("b", etcdclient.AlarmNoSpace)
		Expect(c.Alarms(ctx)).To(ConsistOf(etcdclient.Alarm{MemberID: byName("b").ID, Type: "NOSPACE"}))
		for _, name := range []string{"a", "b", "c"} {
			status, err := c.Status(ctx, byName(name))
			Expect(err).NotTo(HaveOccurred())
			Expect(status.Errors).To(ConsistOf(ContainSubstring("alarm:NOSPACE")))
		}
		c.SetUp("a", false)
		c.SetUp("b", false)
		_, err := c.Alarms(ctx)
		Expect(err).To(MatchError(ErrTimeout))
	})

	It("should know sizes and defragmentations of single members", func() {
		c.SetDatabase("b", 30, 20)
		c.SetDefragmenting("c", true)
		status, err := c.Status(ctx, byName("b"))
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(And(HaveField("DBSize", int64(30)), HaveField("DBSizeInUse", int64(20))))
		Expect(c.Defragmenting(ctx, byName("b"))).To(BeFalse())
		down := byName("c")
		Expect(c.Defragmenting(ctx, down)).To(BeTrue())
		c.SetUp("c", false)
		_, err = c.Defragmenting(ctx, down)
		Expect(err).To(MatchError(ErrDown))
	})

	It("should refuse a second learner", func() {
		learner("d")
		_, err := c.AddLearner(url("e"))
		Expect(err).To(MatchError(ErrTooManyLearners))
	})

	It("should refuse a learner while a voter is down", func() {
		c.SetUp("c", false)
		_, err := c.AddLearner(url("d"))
		Expect(err).To(MatchError(etcdclient.ErrUnhealthy))
	})

	It("should promote a learner only when it has caught up", func() {
		id := learner("d")
		Expect(c.Promote(ctx, id)).To(MatchError(etcdclient.ErrLearnerNotReady))
		c.CatchUp(id)
		Expect(c.Promote(ctx, id)).To(Succeed())
		Expect(c.Promote(ctx, id)).To(MatchError(etcdclient.ErrNotLearner))
		Expect(c.Promote(ctx, 1)).To(MatchError(etcdclient.ErrMemberNotFound))
	})

	It("should let a member without data start with nothing but the member list", func() {
		entry := func(name string) string { return name + "=" + url(name) }
		id, err := c.AddLearner(url("d"))
		Expect(err).NotTo(HaveOccurred())
		three := entry("a") + "," + entry("b") + "," + entry("c")
		all := three + "," + entry("d")
		err = c.Join(id, "d", three)
		Expect(err).To(MatchError(ErrPeerURLs))
		Expect(err).To(MatchError(ContainSubstring("member count is unequal: 3 of 4")))
		Expect(c.Join(id, "d", three+",d=https://other:2380")).To(MatchError(ErrPeerURLs))
		Expect(c.Join(id, "d", all+","+entry("e"))).To(MatchError(ErrPeerURLs))
		Expect(c.Names()).NotTo(ContainElement("d"))
		Expect(c.Join(id, "d", all)).To(Succeed())
		Expect(c.Names()).To(ContainElement("d"))
	})

	It("should give a member any peer URLs that no other one has", func() {
		member := byName("b")
		Expect(c.UpdatePeerURLs(ctx, member.ID, []string{url("b"), "https://b:2381"})).To(Succeed())
		Expect(byName("b").PeerURLs).To(Equal([]string{url("b"), "https://b:2381"}))
		Expect(c.UpdatePeerURLs(ctx, member.ID, []string{url("b"), url("a")})).To(MatchError(ErrPeerURLExists))
		Expect(c.UpdatePeerURLs(ctx, 1, []string{url("d")})).To(MatchError(etcdclient.ErrMemberNotFound))
		Expect(byName("b").PeerURLs).To(HaveLen(2))
		c.SetUp("a", false)
		c.SetUp("c", false)
		Expect(c.UpdatePeerURLs(ctx, member.ID, []string{url("b")})).To(MatchError(ErrTimeout))
	})

	It("should remove a member once", func() {
		id := byName("c").ID
		Expect(c.Remove(ctx, id)).To(Succeed())
		Expect(c.Names()).To(Equal([]string{"a", "b"}))
		Expect(c.Remove(ctx, id)).To(MatchError(etcdclient.ErrMemberNotFound))
	})

	It("should not remove a healthy member when the others would lose the quorum", func() {
		c.SetUp("c", false)
		Expect(c.Remove(ctx, byName("b").ID)).To(MatchError(etcdclient.ErrUnhealthy))
		Expect(c.Remove(ctx, byName("c").ID)).To(Succeed())
	})

	It("should answer nothing without a quorum", func() {
		id := byName("a").ID
		c.SetUp("b", false)
		c.SetUp("c", false)
		Expect(c.Leader()).To(BeEmpty())
		_, err := c.List(ctx)
		Expect(err).To(MatchError(ErrTimeout))
		Expect(c.Health(ctx)).To(MatchError(ErrTimeout))
		Expect(c.Remove(ctx, id)).To(MatchError(ErrTimeout))
		Expect(c.Promote(ctx, id)).To(MatchError(ErrTimeout))
		status, err := c.Status(ctx, etcdclient.Member{ID: id})
		Expect(err).NotTo(HaveOccurred())
		Expect(status.LeaderID).To(BeZero())
	})

	It("should transfer leadership from the leader to a voter only", func() {
		a, b := byName("a"), byName("b")
		id := learner("d")
		Expect(c.MoveLeader(ctx, b, a.ID)).To(MatchError(etcdclient.ErrNotLeader))
		Expect(c.MoveLeader(ctx, a, id)).To(MatchError(etcdclient.ErrBadTransferee))
		Expect(c.MoveLeader(ctx, a, 1)).To(MatchError(etcdclient.ErrBadTransferee))
		Expect(c.MoveLeader(ctx, a, b.ID)).To(Succeed())
		Expect(c.Leader()).To(Equal("b"))
	})

	It("should elect another leader when the leader goes down", func() {
		c.SetUp("a", false)
		Expect(c.Leader()).To(Equal("b"))
	})
})
