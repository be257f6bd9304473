// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/pkg/etcd/quorum"
)

var _ = Describe("#Disruptable", func() {
	DescribeTable("should say how many pods each seed may lose at a time",
		func(text string, source, destination int) {
			Expect(members(text).Disruptable(Source, 0)).To(Equal(source), "source")
			Expect(members(text).Disruptable(Destination, 0)).To(Equal(destination), "destination")
		},
		Entry("before the first member joins", "s0* s1 s2", 1, 0),
		Entry("while the first one joins", "s0* s1 s2 d0?", 0, 0),
		Entry("four voters", "s0* s1 s2 d0", 1, 0),
		Entry("while the second one joins", "s0* s1 s2 d0 d1?", 1, 0),
		Entry("five voters, for as long as a pause lasts", "s0* s1 s2 d0 d1", 1, 1),
		Entry("while the third one joins", "s0* s1 s2 d0 d1 d2?", 0, 0),
		Entry("six voters", "s0* s1 s2 d0 d1 d2", 0, 0),
		Entry("two left in the source", "s0 s1 d0* d1 d2", 1, 1),
		Entry("one left in the source", "s0 d0* d1 d2", 0, 1),
		Entry("the destination alone", "d0* d1 d2", 0, 1),

		Entry("the destination cut off: all of the source are needed", "s0* s1 s2 d0! d1!", 0, 0),
		Entry("one of the destination down", "s0* s1 s2 d0 d1!", 1, 0),
		Entry("one of the source down", "s0* s1 s2! d0 d1", 0, 1),
		Entry("one of each down: all others are needed", "s0* s1 s2! d0 d1!", 0, 0),
		Entry("the source cut off", "s0! s1! d0* d1 d2", 0, 0),
		Entry("one left in the source, and down", "s0! d0* d1 d2", 0, 0),
		Entry("a source member that has lost its data and joins again", "s0* s1 s2? d0 d1", 0, 1),
		Entry("no leader", "s0 s1 s2 d0 d1", 0, 0),
		Entry("no quorum", "s0* s1! s2! d0! d1", 0, 0),
		Entry("a member of neither seed", "s0* s1 s2 d0 d1 x0", 0, 0),
		Entry("nothing known", "", 0, 0),
	)

	DescribeTable("should not take twice what the budget counts itself", func(text string, side Side, allowed int) {
		Expect(members(text).Disruptable(side, 1)).To(Equal(allowed))
	},
		Entry("a member of the source that restarts", "s0* s1 s2! d0 d1", Source, 1),
		Entry("one of the destination that restarts", "s0* s1 s2 d0 d1!", Destination, 1),
		Entry("a second one that is ready and not healthy", "s0* s1! s2! d0 d1", Source, 0),
		Entry("one that joins", "s0* s1 s2 d0 d1?", Destination, 1),
	)

	It("should keep a quorum whatever the two seeds evict at the same time, in each world that there may be", func() {
		worlds, evictions := 0, 0
		eachWorld(func(world Set) {
			worlds++
			downS, downD := world.Disruptable(Source, 0), world.Disruptable(Destination, 0)
			// Learners are promoted, and fail.
			projected := world.Filter(func(Member) bool { return true })
			for i := range projected {
				if projected[i].Learner {
					projected[i].Learner, projected[i].Healthy = false, false
				}
			}
			evict := func(side Side, n int) {
				for i := range projected {
					if n > 0 && projected[i].Side == side && projected[i].Healthy {
						projected[i].Healthy = false
						n--
					}
				}
			}
			evict(Source, downS)
			evict(Destination, downD)
			if evictions += downS + downD; downS+downD > 0 {
				Expect(projected.HasQuorum()).To(BeTrue(), "%s: %d in the source, %d in the destination", world, downS,
					downD)
			}
		})
		Expect(worlds).To(BeNumerically(">", 1000))
		Expect(evictions).To(BeNumerically(">", 50), "otherwise nothing is drained at all")
	})
})

// eachWorld calls the function for every cluster of up to three members in each seed, with each of them healthy, down
// or a learner, and with each possible leader or none.
func eachWorld(f func(Set)) {
	states := []struct{ healthy, learner bool }{{true, false}, {false, false}, {true, true}, {false, true}}
	var add func(world Set, sources, destinations int)
	add = func(world Set, sources, destinations int) {
		side, ordinal := Source, sources-1
		if sources == 0 {
			side, ordinal = Destination, destinations-1
		}
		if ordinal < 0 {
			f(world)
			for i := range world {
				if world[i].Healthy && !world[i].Learner {
					led := world.Filter(func(Member) bool { return true })
					led[i].Leader = true
					f(led)
				}
			}
			return
		}
		for _, state := range states {
			m := Member{ID: uint64(len(world) + 1), Name: fmt.Sprintf("%s-%d", side, ordinal), Side: side,
				Ordinal: ordinal, Healthy: state.healthy, Learner: state.learner}
			next := append(world.Filter(func(Member) bool { return true }), m)
			if side == Source {
				add(next, sources-1, destinations)
			} else {
				add(next, 0, destinations-1)
			}
		}
	}
	for sources := range 4 {
		for destinations := range 4 {
			add(nil, sources, destinations)
		}
	}
}
