// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hops_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/hops"
)

// world is what is known of hops, by "from to". What it does not have is unfit.
type world map[string]hops.Hop

func (w world) look(from, to string) hops.Hop {
	hop, ok := w[from+" "+to]
	if !ok {
		hop.State, hop.Why = hops.Unfit, "too far"
	}
	hop.From, hop.To = from, to
	return hop
}

func near(trip time.Duration) hops.Hop {
	return hops.Hop{State: hops.Near, RoundTrip: trip * time.Millisecond}
}

// configured is a hop that is near by the region ConfigMap, and that no agent measures.
func configured(distance int) hops.Hop { return hops.Hop{State: hops.Near, Distance: distance} }

func unmeasured(distance int) hops.Hop {
	return hops.Hop{State: hops.NotMeasured, Distance: distance, Why: "no probe"}
}

func path(chain hops.Chain) string {
	if len(chain) == 0 {
		return ""
	}
	out := []string{chain[0].From}
	for _, hop := range chain {
		out = append(out, hop.To)
	}
	return strings.Join(out, " ")
}

var _ = Describe("Search", func() {
	search := func(w world, most int) *hops.Search {
		return &hops.Search{From: "a", To: []string{"b", "c"}, By: []string{"a", "b", "c", "m", "n", "o"}, Most: most,
			Look: w.look}
	}

	DescribeTable("finds the shortest chain", func(expected string, most int, w world) {
		chain, err := search(w, most).Shortest()
		Expect(err).NotTo(HaveOccurred())
		Expect(path(chain)).To(Equal(expected))
	},
		Entry("nothing is known", "", 3, world{}),
		Entry("by way of one", "a m b", 2, world{"a m": near(60), "m b": near(60)}),
		Entry("not if only one migration is permitted", "", 1, world{"a m": near(60), "m b": near(60)}),
		Entry("a hop is too far", "", 3, world{"a m": near(60)}),
		Entry("distances have directions", "", 3, world{"a m": near(60), "b m": near(60)}),
		Entry("by way of two", "a m n b", 3, world{"a m": near(60), "m n": near(60), "n b": near(60)}),
		Entry("not if only two are permitted", "", 2, world{"a m": near(60), "m n": near(60), "n b": near(60)}),
		Entry("never more than three migrations, whatever is permitted", "", 9,
			world{"a m": near(1), "m n": near(1), "n o": near(1), "o b": near(1)}),
		Entry("the fewest first, even if the sum is larger", "a o b", 3,
			world{"a m": near(1), "m n": near(1), "n b": near(1), "a o": near(90), "o b": near(90)}),
		Entry("then the smallest sum", "a n b", 3,
			world{"a m": near(10), "m b": near(80), "a n": near(50), "n b": near(39)}),
		Entry("whichever of the destinations it is", "a m c", 3,
			world{"a m": near(10), "m b": near(80), "m c": near(79)}),
		Entry("then by name", "a m b", 3,
			world{"a n": near(10), "n b": near(10), "a m": near(10), "m b": near(10), "m c": near(10)}),
		Entry("by distances where nobody measures", "a n b", 3,
			world{"a m": configured(90), "m b": configured(90), "a n": configured(90), "n b": configured(80)}),
		Entry("by distances where the round trips are equal", "a n b", 3,
			world{"a m": {State: hops.Near, RoundTrip: 1, Distance: 9}, "m b": near(1),
				"a n": {State: hops.Near, RoundTrip: 1, Distance: 8}, "n b": near(1)}),
		Entry("what is measured before what is only configured", "a n b", 3,
			world{"a m": configured(1), "m b": near(1), "a n": near(80), "n b": near(80)}),
		Entry("what is near before what is not measured, however long", "a m n b", 3,
			world{"a o": near(1), "o b": unmeasured(1), "a m": near(90), "m n": near(90), "n b": near(90)}),
		Entry("what is not measured if there is nothing else", "a m b", 3, world{"a m": near(1), "m b": unmeasured(1)}),
		Entry("no destination is one on the way to another", "", 3, world{"a b": near(1), "b c": near(1)}),
		Entry("never by way of where it is", "", 3, world{"a m": near(1), "m a": near(1), "a b": near(1)}),
	)

	It("should say which hops have to be measured, and by way of which seeds it leads", func() {
		chain, err := search(world{"a m": unmeasured(1), "m n": near(1), "n b": unmeasured(2)}, 3).Shortest()
		Expect(err).NotTo(HaveOccurred())
		Expect(chain.NotMeasured()).To(HaveExactElements(
			And(HaveField("From", "a"), HaveField("To", "m")),
			And(HaveField("From", "n"), HaveField("To", "b"), HaveField("Why", "no probe"))))
		Expect(chain.To()).To(Equal("b"))
		Expect(chain.Via()).To(Equal("seed m and seed n"))
		Expect(hops.Chain(nil).Via()).To(BeEmpty())
		Expect(hops.Chain(nil).To()).To(BeEmpty())
	})

	It("should ask for each hop once", func() {
		asked := map[string]int{}
		s := search(world{"a m": near(1), "m n": near(1)}, 3)
		look := s.Look
		s.Look = func(from, to string) hops.Hop {
			asked[from+" "+to]++
			return look(from, to)
		}
		for s.Most = range hops.Max + 1 {
			Expect(s.Shortest()).To(BeEmpty())
		}
		Expect(asked).To(HaveKey("a m"))
		Expect(asked).To(HaveEach(1))
	})

	It("should refuse a question without its parts", func() {
		_, err := (&hops.Search{From: "a"}).Shortest()
		Expect(err).To(MatchError(ContainSubstring("From and Look are needed")))
		_, err = (&hops.Search{Look: world{}.look}).Shortest()
		Expect(err).To(MatchError(ContainSubstring("From and Look are needed")))
	})
})
