// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package single_test

import (
	"maps"
	"runtime"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/search"
	. "github.com/livecpm/livecpm/test/search/single"
)

var _ = Describe("An etcd with one member that is passed on, searched", func() {
	explore := func(model Model) search.Result {
		GinkgoHelper()
		result, err := search.Explore(New(model), search.Bounds{Workers: runtime.NumCPU()})
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Printf("%+v: %s\n", model, result)
		for asked, schedule := range result.Examples {
			GinkgoWriter.Printf("asked: %s\n%s\n", asked, schedule)
		}
		return result
	}

	DescribeTable("should come to its end from every state", func(model Model) {
		result := explore(model)
		Expect(result.Found).NotTo(HaveOccurred())
		Expect(result.Unexpanded).To(BeZero())
		Expect(result.Stuck).To(BeZero(), "%v", result.Examples)
		Expect(result.Goals).To(HaveLen(1))
	},
		Entry("without a fault", Model{}),
		Entry("with agents that die after any write", Model{Kills: 2}),
		Entry("with members that crash", Model{Crashes: 2, Elections: 1}),
		Entry("with cuts", Model{Cuts: 2, Elections: 1}),
		Entry("with all of these", Model{Crashes: 1, Cuts: 1, Elections: 1, Kills: 1}),
	)

	It("should lose nothing with a volume, and ask a person if there were two voters", func() {
		result := explore(Model{Volumes: 1, Crashes: 1, Kills: 1})
		Expect(result.Found).NotTo(HaveOccurred())
		Expect(result.Unexpanded).To(BeZero())
		Expect(result.Stuck).To(BeNumerically(">", 0))
		Expect(slices.Collect(maps.Keys(result.Asks))).To(And(ContainElement(ContainSubstring("QuorumLost")),
			HaveEach(Or(ContainSubstring("QuorumLost"), ContainSubstring("a request timed out")))))
	})

	DescribeTable("should find what is wrong", func(model Model, problem string) {
		Expect(explore(model).Found).To(MatchError(ContainSubstring(problem)))
	},
		Entry("with a source that does not know the second member",
			Model{Volumes: 1, Broken: Broken{OneName: true}}, "has begun a cluster of its own beside a second voter"),
		Entry("with an agent that stops the member first",
			Model{Broken: Broken{Hasty: true}}, "the voter of the source stops"),
	)

	It("should let the source join again, and end without a quorum, if clients are led too early", func() {
		joinsAgain := search.Schedule{
			"destination: the StatefulSet makes the pod", "destination: the sidecar prepares the member",
			"destination: etcd starts", "destination: the member catches up", "the agent of the destination moves",
			"source: the sidecar prepares the member",
		}
		again, err := search.Replay(New(Model{Broken: Broken{LedEarly: true}}), joinsAgain)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Key()).To(ContainSubstring(":2380l"))
		well, err := search.Replay(New(Model{}), joinsAgain)
		Expect(err).NotTo(HaveOccurred())
		Expect(well.Key()).NotTo(ContainSubstring(":2380"))
		// The pod that has joined again is taken away as that of a learner, and its sidecar makes a voter of it just
		// then.
		early := explore(Model{Broken: Broken{LedEarly: true}})
		Expect(early.Found).NotTo(HaveOccurred())
		Expect(slices.Collect(maps.Keys(early.Asks))).To(ConsistOf("QuorumLost"))
	})
})
