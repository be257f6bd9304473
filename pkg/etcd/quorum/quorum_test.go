// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	. "github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// members builds a set from words like "s0 s1* s2! d0 d1? d2?!": side and ordinal, then "*" for the leader, "!" for
// unhealthy and "?" for a learner.
func members(text string) Set {
	var out Set
	for _, word := range strings.Fields(text) {
		m := Member{Healthy: !strings.Contains(word, "!"), Learner: strings.Contains(word, "?"),
			Leader: strings.Contains(word, "*")}
		m.Ordinal = int(word[1] - '0')
		switch word[0] {
		case 's':
			m.Side, m.ID, m.Name = Source, uint64(0x10+m.Ordinal), fmt.Sprintf("seed-a-etcd-main-%d", m.Ordinal)
		case 'd':
			m.Side, m.ID, m.Name = Destination, uint64(0x20+m.Ordinal), fmt.Sprintf("seed-b-etcd-main-%d", m.Ordinal)
		default:
			m.Side, m.ID, m.Name = Foreign, uint64(0x30+m.Ordinal), "stranger"
		}
		out = append(out, m)
	}
	return out
}

func id(word string) uint64 {
	if word[0] == 's' {
		return uint64(0x10 + int(word[1]-'0'))
	}
	return uint64(0x20 + int(word[1]-'0'))
}

var _ = Describe("Quorum", func() {
	DescribeTable("#Size", func(voters, expected int) { Expect(Size(voters)).To(Equal(expected)) },
		Entry("1", 1, 1), Entry("2", 2, 2), Entry("3", 3, 2), Entry("4", 4, 3), Entry("5", 5, 3), Entry("6", 6, 4))

	DescribeTable("#HasQuorum", func(text string, expected bool) {
		Expect(members(text).HasQuorum()).To(Equal(expected))
	},
		Entry("no members", "", false),
		Entry("three healthy", "s0* s1 s2", true),
		Entry("one of three down", "s0* s1 s2!", true),
		Entry("two of three down", "s0* s1! s2!", false),
		Entry("three of six down", "s0* s1 s2 d0! d1! d2!", false),
		Entry("a learner does not help", "s0* s1! s2! d0?", false),
	)

	DescribeTable("#AddLearner", func(text string, match types.GomegaMatcher) {
		Expect(members(text).AddLearner()).To(match)
	},
		Entry("healthy", "s0* s1 s2", Succeed()),
		Entry("one down", "s0* s1 s2!", Succeed()),
		Entry("quorum lost already", "s0 s1! s2!", MatchError(ContainSubstring("would lose the quorum"))),
		Entry("another learner", "s0* s1 s2 d0?", MatchError(ContainSubstring("seed-b-etcd-main-0"))),
	)

	DescribeTable("#Promote", func(text, word string, match types.GomegaMatcher) {
		Expect(members(text).Promote(id(word))).To(match)
	},
		Entry("3 to 4", "s0* s1 s2 d0?", "d0", Succeed()),
		Entry("3 to 4, one down: 2 of 4 if the new voter failed", "s0* s1 s2! d0?", "d0",
			MatchError(And(ContainSubstring("would lose the quorum"), ContainSubstring("seed-a-etcd-main-2"),
				ContainSubstring("seed-b-etcd-main-0")))),
		Entry("4 to 5", "s0* s1 s2 d0 d1?", "d1", Succeed()),
		Entry("4 to 5, one down: 3 of 5", "s0* s1 s2! d0 d1?", "d1", Succeed()),
		Entry("5 to 6", "s0* s1 s2 d0 d1 d2?", "d2", Succeed()),
		Entry("5 to 6, one down: 4 of 6", "s0* s1 s2 d0 d1! d2?", "d2", Succeed()),
		Entry("5 to 6, two down: 3 of 6", "s0* s1 s2! d0 d1! d2?", "d2",
			MatchError(ContainSubstring("3 of 6 voters healthy, 4 needed"))),
		Entry("a voter", "s0* s1 s2 d0", "d0", MatchError(ContainSubstring("voter already"))),
		Entry("an unknown member", "s0* s1 s2", "d0", MatchError(ContainSubstring("not in the member list"))),
	)

	DescribeTable("#Remove", func(text, word string, match types.GomegaMatcher) {
		Expect(members(text).Remove(id(word))).To(match)
	},
		Entry("6 to 5", "s0 s1 s2 d0 d1 d2*", "s2", Succeed()),
		Entry("6 to 5 while a destination member restarts", "s0 s1 s2 d0 d1! d2*", "s2", Succeed()),
		Entry("6 to 5, two others down", "s0 s1 s2 d0! d1! d2*", "s2",
			MatchError(And(ContainSubstring("would lose the quorum"), ContainSubstring("seed-b-etcd-main-0")))),
		Entry("5 to 4", "s0 s1 d0 d1 d2*", "s1", Succeed()),
		Entry("4 to 3", "s0 d0 d1 d2*", "s0", Succeed()),
		Entry("4 to 3, one other down", "s0 d0! d1 d2*", "s0",
			MatchError(ContainSubstring("2 of 4 voters healthy, 3 needed"))),
		Entry("a member that is down itself", "s0! d0 d1 d2*", "s0", Succeed()),
		Entry("the leader", "s0 s1 s2* d0 d1 d2", "s2", MatchError(ContainSubstring("leads the cluster"))),
		Entry("the last voter", "d0", "d0", MatchError(ContainSubstring("last voter"))),
		Entry("a learner", "s0* s1 s2 d0?!", "d0", Succeed()),
		Entry("an unknown member", "s0* s1 s2", "d0", MatchError(ContainSubstring("not in the member list"))),
	)

	DescribeTable("#Retire", func(text, word string, match types.GomegaMatcher) {
		Expect(members(text).Retire(id(word))).To(match)
	},
		Entry("6 to 5", "s0 s1 s2 d0 d1 d2*", "s2", Succeed()),
		Entry("6 to 5 while a member that remains restarts", "s0 s1 s2 d0 d1! d2*", "s2", Succeed()),
		Entry("6 to 5 with another one lost that leaves", "s0! s1 s2 d0 d1 d2*", "s2", Succeed()),
		Entry("6 to 5 with itself lost", "s0 s1 s2! d0 d1 d2*", "s2", Succeed()),
		Entry("6 to 5 with one lost on each side", "s0! s1 s2 d0 d1! d2*", "s2",
			MatchError(ContainSubstring("3 of 6 voters healthy, 4 needed"))),
		Entry("5 to 4", "s0 s1 d0 d1 d2*", "s1", Succeed()),
		Entry("5 to 4 with another one lost that leaves", "s0! s1 d0 d1 d2*", "s1", Succeed()),
		Entry("5 to 4 with itself lost", "s0 s1! d0 d1 d2*", "s1", Succeed()),
		Entry("5 to 4 with all lost that leave", "s0! s1! d0 d1 d2*", "s1", Succeed()),
		Entry("5 to 4 while a member that remains restarts", "s0 s1 d0 d1! d2*", "s1",
			MatchError(And(ContainSubstring("stays until"), ContainSubstring("seed-b-etcd-main-1")))),
		Entry("5 to 4 with itself lost while a member that remains restarts", "s0 s1! d0 d1! d2*", "s1",
			MatchError(And(ContainSubstring("stays until"), ContainSubstring("seed-b-etcd-main-1")))),
		Entry("5 to 4 with another one lost while a member that remains restarts", "s0! s1 d0 d1! d2*", "s1",
			MatchError(ContainSubstring("2 of 5 voters healthy, 3 needed"))),
		Entry("4 to 3", "s0 d0 d1 d2*", "s0", Succeed()),
		Entry("4 to 3 with itself lost", "s0! d0 d1 d2*", "s0", Succeed()),
		Entry("4 to 3 while a member that remains restarts", "s0 d0! d1 d2*", "s0",
			MatchError(ContainSubstring("2 of 4 voters healthy, 3 needed"))),
		Entry("a learner that leaves", "s0?! s1 s2 d0 d1 d2*", "s0", Succeed()),
		Entry("with a learner that leaves", "s0?! s1 d0 d1 d2*", "s1", Succeed()),
		Entry("the leader", "s0 s1* d0 d1 d2", "s1", MatchError(ContainSubstring("leads the cluster"))),
		Entry("the last voter", "d0", "d0", MatchError(ContainSubstring("last voter"))),
		Entry("an unknown member", "s0* s1 s2", "d0", MatchError(ContainSubstring("not in the member list"))),
	)

	DescribeTable("#RetireLost", func(text, word string, match types.GomegaMatcher) {
		Expect(members(text).RetireLost(id(word))).To(match)
	},
		Entry("one of three beside two", "s0* s1! s2 d0 d1", "s1", Succeed()),
		Entry("one that answers", "s0* s1 s2 d0 d1", "s1", MatchError(ContainSubstring("is not lost: it answers"))),
		Entry("one of two that are down", "s0* s1! s2 d0 d1!", "s1",
			MatchError(ContainSubstring("stays until the others are healthy: seed-b-etcd-main-1"))),
		Entry("one of three that are down", "s0* s1! s2! d0 d1!", "s1",
			MatchError(ContainSubstring("2 of 5 voters healthy, 3 needed"))),
		Entry("one of three alone", "s0* s1! s2", "s1", Succeed()),
		Entry("an unknown member", "s0* s1 s2", "d0", MatchError(ContainSubstring("not in the member list"))),
	)

	It("should let as many fail after a lost voter has left as before", func() {
		spare := func(s Set) int { return len(s.Voters().Healthy()) - Size(len(s.Voters())) }
		before := members("s0* s1! s2 d0 d1")
		after := before.Filter(func(m Member) bool { return m.ID != id("s1") })
		Expect(spare(after)).To(Equal(spare(before)))
	})

	DescribeTable("should let all of a side leave one after the other, and keep the quorum all the while",
		func(text string) {
			left := members(text)
			for _, victim := range left.RemovalOrder(Source) {
				Expect(left.Retire(victim.ID)).To(Succeed())
				Expect(left.Stop(victim.ID)).To(Succeed())
				left = left.Filter(func(m Member) bool { return m.ID != victim.ID })
				Expect(left.HasQuorum()).To(BeTrue())
			}
			Expect(left.On(Source)).To(BeEmpty())
		},
		Entry("all healthy", "s0 s1 s2 d0* d1 d2"),
		Entry("the first lost", "s0 s1 s2! d0* d1 d2"),
		Entry("the second lost", "s0 s1! s2 d0* d1 d2"),
		Entry("the last lost", "s0! s1 s2 d0* d1 d2"),
		Entry("two left, both lost", "s0! s1! d0* d1 d2"),
	)

	DescribeTable("#Stop", func(text, word string, match types.GomegaMatcher) {
		Expect(members(text).Stop(id(word))).To(match)
	},
		Entry("six healthy", "s0 s1 s2 d0 d1 d2*", "s2", Succeed()),
		Entry("four of six stay", "s0 s1 s2 d0 d1! d2*", "s2", Succeed()),
		Entry("three of six stay", "s0 s1! s2 d0 d1! d2*", "s2",
			MatchError(ContainSubstring("stopping seed-a-etcd-main-2"))),
		Entry("an unknown member", "s0* s1 s2", "d0", MatchError(ContainSubstring("not in the member list"))),
	)

	It("should tell a lost quorum from other errors", func() {
		Expect(IsLost(fmt.Errorf("wrapped: %w", members("s0 d0! d1 d2*").Remove(id("s0"))))).To(BeTrue())
		Expect(IsLost(members("s0 d0 d1 d2").Remove(id("s2")))).To(BeFalse())
	})

	It("should give up the highest ordinal first", func() {
		var order []string
		for _, m := range members("s0 d0 s2 s1* d1").RemovalOrder(Source) {
			order = append(order, m.Name)
		}
		Expect(order).To(Equal([]string{"seed-a-etcd-main-2", "seed-a-etcd-main-1", "seed-a-etcd-main-0"}))
	})

	DescribeTable("#NextLeader", func(text, expected string) {
		m, ok := members(text).NextLeader(Destination)
		Expect(ok).To(Equal(expected != ""))
		Expect(m.Name).To(Equal(expected))
	},
		Entry("lowest ordinal", "s0* s1 s2 d0 d1 d2", "seed-b-etcd-main-0"),
		Entry("not an unhealthy one", "s0* s1 s2 d0! d1 d2", "seed-b-etcd-main-1"),
		Entry("not a learner", "s0* s1 s2 d0? d1 d2", "seed-b-etcd-main-1"),
		Entry("none", "s0* s1 s2 d0!", ""),
	)

	DescribeTable("#Decides", func(text string, destination, source bool) {
		Expect(members(text).Decides(Destination)).To(Equal(destination))
		Expect(members(text).Decides(Source)).To(Equal(source))
	},
		Entry("two of five", "s0* s1 s2 d0 d1", false, true),
		Entry("two of five and a learner", "s0* s1 s2 d0 d1 d2?", false, true),
		Entry("three of six", "s0* s1 s2 d0 d1 d2", false, false),
		Entry("three of five", "s0* s1 d0 d1 d2", true, false),
		Entry("three of five, one of them down", "s0* s1 d0 d1! d2", false, false),
		Entry("three of four", "s0* d0 d1 d2", true, false),
		Entry("a learner only", "d0?", false, false),
	)

	It("should find the leader", func() {
		leader, ok := members("s0 s1* s2").Leader()
		Expect(ok).To(BeTrue())
		Expect(leader.ID).To(Equal(id("s1")))
		Expect(members("s0 s1* d2").LeadershipIsOn(Source)).To(BeTrue())
		Expect(members("s0 s1* d2").LeadershipIsOn(Destination)).To(BeFalse())
		_, ok = members("s0 s1 s2").Leader()
		Expect(ok).To(BeFalse())
		Expect(members("s0 s1 s2").LeadershipIsOn(Source)).To(BeFalse())
	})
})
