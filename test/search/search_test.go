// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/test/search"
)

// stairs are a world in which somebody climbs ten stairs, one or two at a time. Wind throws them back to the ground.
type stairs struct {
	at int
	// rotten is a stair that must not be stepped on, hole one from which nobody gets away, and shout one from which
	// nobody gets away but where somebody calls for help. Zero is none.
	rotten, hole, shout int
	asks                string
}

func (s *stairs) Key() string { return fmt.Sprint(s.at) }

func (s *stairs) Actions() []Action {
	switch {
	case s.at == s.hole && s.hole > 0:
		return []Action{{Name: "wind", Fault: true}}
	case s.at == s.shout && s.shout > 0:
		return []Action{{Name: "call"}, {Name: "wind", Fault: true}}
	}
	return []Action{{Name: "one"}, {Name: "two"}, {Name: "wind", Fault: true}}
}

func (s *stairs) Clone() World { copied := *s; return &copied }

func (s *stairs) Do(name string) error {
	s.asks = ""
	switch name {
	case "one":
		s.at++
	case "two":
		s.at += 2
	case "wind":
		s.at = 0
	case "call":
		s.asks = "a ladder"
	default:
		return errors.New("nobody can do that")
	}
	return nil
}

func (s *stairs) Violation() string {
	if s.at == s.rotten && s.rotten > 0 {
		return "a stair breaks"
	}
	return ""
}

func (s *stairs) Goal() string {
	if s.at >= 10 {
		return "top"
	}
	return ""
}

func (s *stairs) Asks() string { return s.asks }

var _ = Describe("Search", func() {
	explore := func(start *stairs, bounds Bounds) Result {
		GinkgoHelper()
		result, err := Explore(start, bounds)
		Expect(err).NotTo(HaveOccurred())
		return result
	}

	It("should see each state once, and say that these are all", func() {
		result := explore(&stairs{}, Bounds{})
		Expect(result.Found).NotTo(HaveOccurred())
		Expect(result.States).To(Equal(12))
		Expect(result.Moves).To(Equal(30))
		Expect(result.Depth).To(Equal(6))
		Expect(result.Goals).To(Equal(map[string]int{"top": 2}))
		Expect(result.Stuck).To(BeZero())
		Expect(result.String()).To(Equal("12 states, 30 events between them, 6 events deep, complete\n" +
			"2 states are the end \"top\"\n0 states have no way to such an end without a person"))
	})

	It("should find the same with several workers", func() {
		Expect(explore(&stairs{shout: 3}, Bounds{Workers: 4})).To(Equal(explore(&stairs{shout: 3}, Bounds{})))
	})

	It("should print a shortest schedule to a state that must not be, which can be replayed", func() {
		found := explore(&stairs{rotten: 5}, Bounds{}).Found
		Expect(found).To(MatchError("a stair breaks, after these 3 events:\none\ntwo\ntwo"))

		_, err := Replay(&stairs{rotten: 5}, ParseSchedule("# copied\n\n  one\ntwo\ntwo\ntwo\n"))
		Expect(err).To(Equal(found))
		after, err := Replay(&stairs{}, found.Schedule)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Key()).To(Equal("5"))
		_, err = Replay(&stairs{}, Schedule{"one", "fly"})
		Expect(err).To(MatchError(ContainSubstring(`event 2, "fly"`)))
	})

	It("should find a state from which nothing but a fault leads on", func() {
		Expect(explore(&stairs{hole: 4}, Bounds{}).Found).To(MatchError(HavePrefix("no way leads from here")))
		Expect(explore(&stairs{hole: 4}, Bounds{}).Found.Schedule).To(Equal(Schedule{"two", "two"}))
	})

	It("should be content where a person is asked, and say for what and where", func() {
		result := explore(&stairs{shout: 4}, Bounds{})
		Expect(result.Found).NotTo(HaveOccurred())
		Expect(result.Stuck).To(Equal(1), "from each other stair there is a way past this one")
		Expect(result.Asks).To(Equal(map[string]int{"a ladder": 1}))
		Expect(result.Examples).To(Equal(map[string]Schedule{"a ladder": {"two", "two"}}))
		Expect(result.String()).To(ContainSubstring("asked in 1 where these end: a ladder"))
	})

	It("should take no state at the bounds for one without a way, and count them", func() {
		result := explore(&stairs{hole: 9}, Bounds{Depth: 2})
		Expect(result.Found).NotTo(HaveOccurred())
		Expect(result.States).To(Equal(5))
		Expect(result.Unexpanded).To(Equal(2))
		Expect(result.String()).To(ContainSubstring("2 states at the bound not looked beyond"))
		Expect(explore(&stairs{}, Bounds{States: 3}).Unexpanded).To(BeNumerically(">", 0))
	})

	It("should repeat a random schedule by its two numbers", func() {
		walks := Walks{Seed: 7, Events: 30, Faults: 0.3, Calm: 20}
		first, err := walks.Walk(&stairs{}, 3)
		Expect(err).NotTo(HaveOccurred())
		Expect(first.Goal).To(Equal("top"))
		Expect(walks.Walk(&stairs{}, 3)).To(Equal(first))
		Expect(walks.Walk(&stairs{}, 4)).NotTo(Equal(first))
	})

	It("should find with random schedules what must not be, and a missing end", func() {
		walks := Walks{Seed: 7, Events: 5, Calm: 20}
		failures := func(start *stairs) (out []error) {
			for number := range uint64(20) {
				if _, err := walks.Walk(start, number); err != nil {
					out = append(out, err)
				}
			}
			return out
		}
		Expect(failures(&stairs{})).To(BeEmpty())
		Expect(failures(&stairs{rotten: 5})).To(ContainElement(MatchError(HavePrefix("a stair breaks"))))
		Expect(failures(&stairs{hole: 5})).To(ContainElement(MatchError(HavePrefix("no end is there"))))
		Expect(failures(&stairs{shout: 5})).To(BeEmpty())
	})
})
