// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	. "github.com/livecpm/livecpm/pkg/etcd/quorum"
)

var _ = Describe("A single voter", func() {
	lost := Satisfy(IsLost)

	DescribeTable("#PassOn", func(text string, expected Change, member string) {
		change, with, err := members(text).PassOn()
		Expect(err).NotTo(HaveOccurred())
		Expect(change).To(Equal(expected))
		if member == "" {
			Expect(with).To(Equal(Member{}))
		} else {
			Expect(with.ID).To(Equal(id(member)))
		}
	},
		Entry("alone", "s0*", ChangeJoin, ""),
		Entry("alone, and nobody knows whether it leads", "s0!", ChangeJoin, ""),
		Entry("beside a learner", "s0* d0?", ChangePromote, "d0"),
		Entry("beside a learner that has not started", "s0* d0?!", ChangePromote, "d0"),
		Entry("beside a second voter, leading", "s0* d0", ChangeLead, "d0"),
		Entry("beside a second voter that leads", "s0 d0*", ChangeRemove, "s0"),
		Entry("beside a second voter, and nobody leads", "s0! d0", ChangeRemove, "s0"),
		Entry("gone", "d0*", ChangeNone, ""),
		Entry("gone, and its pod has joined again", "s0? d0*", ChangeRemove, "s0"),
	)

	DescribeTable("#PassOn of other clusters", func(text string) {
		_, _, err := members(text).PassOn()
		Expect(err).To(MatchError(ContainSubstring("there are ")))
	},
		Entry("none", ""),
		Entry("three members", "s0* s1 s2"),
		Entry("two in one seed", "s0* s1"),
		Entry("two in the destination", "d0* d1"),
		Entry("a third one", "s0* d0 d1?"),
		Entry("a stranger", "s0* x0"),
		Entry("nothing but a learner", "d0?!"),
	)

	DescribeTable("#PassOn with a learner on the wrong side", func(text string) {
		_, _, err := members(text).PassOn()
		Expect(err).To(MatchError(ContainSubstring("on the side of the only voter")))
	},
		Entry("in the source", "s0* s1?"),
		Entry("in the destination", "d0* d1?"),
	)

	DescribeTable("#PromoteSecond", func(text, member string, match types.GomegaMatcher) {
		Expect(members(text).PromoteSecond(id(member))).To(match)
	},
		Entry("a learner that answers", "s0* d0?", "d0", Succeed()),
		Entry("a learner that does not answer", "s0* d0?!", "d0", lost),
		Entry("beside a voter that does not answer", "s0! d0?", "d0", lost),
		Entry("a voter", "s0* d0", "d0", MatchError(ContainSubstring("not the learner of the destination"))),
		Entry("another member", "s0* d0?", "s0", MatchError(ContainSubstring("not the learner of the destination"))),
		Entry("one of the source that has joined again", "s0? d0*", "s0",
			MatchError(ContainSubstring("not the learner of the destination"))),
		Entry("beside three voters", "s0* s1 s2 d0?", "d0", MatchError(ContainSubstring("cannot be promoted"))),
	)

	DescribeTable("#RemoveFormer", func(text, member string, match types.GomegaMatcher) {
		Expect(members(text).RemoveFormer(id(member))).To(match)
	},
		Entry("with leadership in the destination", "s0 d0*", "s0", Succeed()),
		Entry("of one that does not answer", "s0! d0*", "s0", lost),
		Entry("beside one that does not answer", "s0 d0!*", "s0", lost),
		Entry("without a leader", "s0 d0", "s0", MatchError(ContainSubstring("nobody is known to lead"))),
		Entry("of the leader", "s0* d0", "s0", MatchError(ContainSubstring("that leads"))),
		Entry("of the other one", "s0 d0*", "d0", MatchError(ContainSubstring("not the voter of the source"))),
		Entry("of a learner", "s0? d0*", "s0", MatchError(ContainSubstring("not the voter of the source"))),
		Entry("of the only voter", "s0*", "s0", MatchError(ContainSubstring("not the voter of the source"))),
		Entry("of one of three", "s0 s1* s2", "s0", MatchError(ContainSubstring("cannot be removed"))),
	)

	It("should not be permitted by the rules for more members, which count who changes as down", func() {
		Expect(members("s0* d0?").Promote(id("d0"))).To(lost)
		Expect(members("s0 d0*").Remove(id("s0"))).To(lost)
		Expect(members("s0 d0*").Stop(id("s0"))).To(lost)
		Expect(members("s0 d0*").Retire(id("s0"))).To(lost)
	})

	DescribeTable("#Disruptable, with two voters or one", func(text string) {
		Expect(members(text).Disruptable(Source, 0)).To(BeZero())
		Expect(members(text).Disruptable(Destination, 0)).To(BeZero())
	},
		Entry("alone", "s0*"), Entry("with a learner", "s0* d0?"), Entry("two voters", "s0* d0"),
		Entry("passed on", "d0*"))
})
