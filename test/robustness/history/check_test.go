// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/robustness/history"
)

// turn is the time of an operation, in seconds, and the client whose operation it is.
type turn struct{ client, call, end int }

func by(client, call, end int) turn { return turn{client: client, call: call, end: end} }

// op makes an operation of the key "k".
func op(t turn, kind history.Kind, change func(*history.Operation)) history.Operation {
	o := history.Operation{
		Client: t.client, Kind: kind, Key: "k", Outcome: history.Done,
		Call: time.Duration(t.call) * time.Second, Return: time.Duration(t.end) * time.Second,
	}
	change(&o)
	return o
}

func create(t turn, value string, revision uint64) history.Operation {
	return op(t, history.Create, func(o *history.Operation) { o.Value, o.Revision = value, revision })
}

func update(t turn, expect, value string, revision uint64) history.Operation {
	return op(t, history.Update,
		func(o *history.Operation) { o.Expect, o.Value, o.Revision = expect, value, revision })
}

func remove(t turn, expect string) history.Operation {
	return op(t, history.Delete, func(o *history.Operation) { o.Expect = expect })
}

func read(t turn, found string, revision uint64) history.Operation {
	return op(t, history.Read, func(o *history.Operation) { o.Found, o.Revision = found, revision })
}

func with(o history.Operation, outcome history.Outcome) history.Operation {
	o.Outcome, o.Revision = outcome, 0
	return o
}

func event(kind history.EventType, value string, revision uint64, at int) history.Event {
	return history.Event{Type: kind, Key: "k", Value: value, Revision: revision, At: time.Duration(at) * time.Second}
}

func stream(events ...history.Event) *history.Stream {
	return &history.Stream{Name: "w", Start: 100, Complete: true, Events: events}
}

var anything = history.Requirements{Timeout: time.Minute}

type operations = []history.Operation

var _ = Describe("Check", func() {
	DescribeTable("linearizability of operations", func(list operations, expected string) {
		Expect(history.Check(&history.History{Operations: list}, anything).Linearizable).To(Equal(expected))
	},
		Entry("nothing happened", operations{}, "Ok"),
		Entry("a read finds what was written",
			operations{create(by(0, 0, 1), "a", 101), read(by(1, 2, 3), "a", 101)}, "Ok"),
		Entry("a read misses what was written",
			operations{create(by(0, 0, 1), "a", 101), read(by(1, 2, 3), "", 0)}, "Illegal"),
		Entry("a read at the same time may find either",
			operations{create(by(0, 0, 5), "a", 101), read(by(1, 1, 2), "", 0), read(by(1, 3, 4), "a", 101)}, "Ok"),
		Entry("a read goes back to what another one found to be past",
			operations{create(by(0, 0, 1), "a", 101), update(by(0, 2, 9), "a", "b", 102), read(by(1, 3, 4), "b", 102),
				read(by(1, 5, 6), "a", 101)}, "Illegal"),
		Entry("of two updates of the same state one wins", operations{
			create(by(0, 0, 1), "a", 101), update(by(0, 2, 5), "a", "b", 102),
			with(update(by(1, 2, 5), "a", "c", 0), history.Rejected), read(by(2, 6, 7), "b", 102),
		}, "Ok"),
		Entry("both of two updates of the same state win", operations{
			create(by(0, 0, 1), "a", 101), update(by(0, 2, 5), "a", "b", 102), update(by(1, 2, 5), "a", "c", 103),
		}, "Illegal"),
		Entry("an update is refused without reason",
			operations{create(by(0, 0, 1), "a", 101), with(update(by(1, 2, 3), "a", "b", 0), history.Rejected)},
			"Illegal"),
		Entry("an update of an object that does not exist is refused",
			operations{with(update(by(1, 2, 3), "a", "b", 0), history.Rejected)}, "Ok"),
		Entry("a create is refused because the object exists",
			operations{create(by(0, 0, 1), "a", 101), with(create(by(1, 2, 3), "b", 0), history.Rejected)}, "Ok"),
		Entry("a create is refused although the object does not exist",
			operations{with(create(by(1, 2, 3), "b", 0), history.Rejected)}, "Illegal"),
		Entry("an object is created twice", operations{create(by(0, 0, 1), "a", 101), create(by(1, 2, 3), "b", 102)},
			"Illegal"),
		Entry("an object is created again after it was deleted",
			operations{create(by(0, 0, 1), "a", 101), remove(by(0, 2, 3), "a"), read(by(0, 4, 5), "", 0),
				create(by(1, 6, 7), "b", 103)}, "Ok"),
		Entry("a deleted object comes back",
			operations{create(by(0, 0, 1), "a", 101), remove(by(0, 2, 3), "a"), read(by(0, 4, 5), "a", 101)},
			"Illegal"),
		Entry("what was deleted was another version",
			operations{create(by(0, 0, 1), "a", 101), update(by(0, 2, 3), "a", "b", 102), remove(by(0, 4, 5), "a")},
			"Illegal"),
		Entry("a delete of another version is refused",
			operations{create(by(0, 0, 1), "a", 101), update(by(0, 2, 3), "a", "b", 102),
				with(remove(by(0, 4, 5), "a"), history.Rejected)}, "Ok"),
		Entry("revisions go back",
			operations{create(by(0, 0, 1), "a", 105), update(by(0, 2, 3), "a", "b", 103)}, "Illegal"),
		Entry("one value has two revisions",
			operations{create(by(0, 0, 1), "a", 101), read(by(0, 2, 3), "a", 102)}, "Illegal"),
		Entry("an unknown write was carried out",
			operations{with(create(by(0, 0, 1), "a", 0), history.Unknown), read(by(1, 2, 3), "a", 101)}, "Ok"),
		Entry("an unknown write was carried out late",
			operations{with(create(by(0, 0, 1), "a", 0), history.Unknown), read(by(1, 2, 3), "", 0),
				read(by(1, 4, 5), "a", 101)},
			"Ok"),
		Entry("an unknown write was never carried out",
			operations{with(create(by(0, 0, 1), "a", 0), history.Unknown), read(by(1, 2, 3), "", 0)}, "Ok"),
		Entry("an unknown write was carried out and undone",
			operations{with(create(by(0, 0, 1), "a", 0), history.Unknown), read(by(1, 2, 3), "a", 101),
				read(by(1, 4, 5), "", 0)},
			"Illegal"),
		Entry("an unknown update makes a later one fail",
			operations{create(by(0, 0, 1), "a", 101), with(update(by(0, 2, 3), "a", "b", 0), history.Unknown),
				with(update(by(1, 4, 5), "a", "c", 0), history.Rejected)}, "Ok"),
		Entry("an unknown write before it was sent",
			operations{read(by(1, 0, 1), "a", 101), with(create(by(0, 2, 3), "a", 0), history.Unknown)}, "Illegal"),
		Entry("an unknown delete was carried out",
			operations{create(by(0, 0, 1), "a", 101), with(remove(by(0, 2, 3), "a"), history.Unknown),
				read(by(1, 4, 5), "", 0)},
			"Ok"),
		Entry("an unknown delete of another version does nothing",
			operations{create(by(0, 0, 1), "a", 101), with(remove(by(0, 2, 3), "z"), history.Unknown),
				read(by(1, 4, 5), "", 0)},
			"Illegal"),
		Entry("a read without an answer says nothing",
			operations{create(by(0, 0, 1), "a", 101), with(read(by(1, 2, 3), "", 0), history.Failed)}, "Ok"),
		Entry("a write of nobody", operations{read(by(1, 2, 3), "x", 101)}, "Illegal"),
	)

	It("should look at every key by itself", func() {
		other := create(by(1, 2, 3), "b", 99)
		other.Key = "l"
		h := &history.History{Operations: operations{create(by(0, 0, 1), "a", 101), other}}
		Expect(history.Check(h, anything).Linearizable).To(Equal("Ok"))
	})

	It("should not accept a search that did not end", func() {
		list := operations{}
		for i := range 40 {
			list = append(list, with(create(by(i, 0, 1), string(rune('A'+i)), 0), history.Unknown))
		}
		for i := range 200 {
			list = append(list, read(by(100+i, 2, 300), string(rune('A'+i%40)), 0))
		}
		requirements := anything
		requirements.Timeout = time.Nanosecond
		verdict := history.Check(&history.History{Operations: list}, requirements)
		Expect(verdict.Linearizable).To(Equal("Unknown"))
		Expect(verdict.Err()).To(MatchError(ContainSubstring("linearizability was not checked")))
	})

	Describe("watches", func() {
		// story is a history in which everything is right.
		var story *history.History

		BeforeEach(func() {
			story = &history.History{
				Operations: operations{
					create(by(0, 0, 1), "a", 101), update(by(1, 2, 3), "a", "b", 103), remove(by(0, 4, 5), "b"),
					create(by(1, 6, 7), "c", 107),
					with(update(by(0, 8, 9), "c", "d", 0), history.Unknown), read(by(1, 20, 21), "d", 109),
				},
				Streams: []*history.Stream{
					stream(event(history.Added, "a", 101, 1), event(history.Modified, "b", 103, 3),
						event(history.Deleted, "b", 105, 5),
						event(history.Added, "c", 107, 7), event(history.Modified, "d", 109, 10)),
					stream(event(history.Added, "a", 101, 2), event(history.Modified, "b", 103, 4),
						event(history.Deleted, "b", 105, 6),
						event(history.Added, "c", 107, 8), event(history.Modified, "d", 109, 11)),
				},
			}
		})

		It("should accept them if they tell all and nothing else", func() {
			Expect(history.Check(story, anything).Err()).NotTo(HaveOccurred())
		})

		It("should accept a gap that the server has owned up to, if another watch has none", func() {
			story.Streams[0].Gaps = []history.Gap{{After: 101, Until: 105}}
			story.Streams[0].Events = append(story.Streams[0].Events[:1], story.Streams[0].Events[3:]...)
			Expect(history.Check(story, anything).Err()).NotTo(HaveOccurred())
		})

		It("should accept a stream that begins late", func() {
			story.Streams[0].Start = 106
			story.Streams[0].Events = story.Streams[0].Events[3:]
			story.Streams[0].Gaps = []history.Gap{{After: 100, Until: 106}}
			Expect(history.Check(story, anything).Err()).NotTo(HaveOccurred())
		})

		DescribeTable("should refuse", func(spoil func(*history.History), problem string) {
			spoil(story)
			Expect(history.Check(story, anything).Err()).To(MatchError(ContainSubstring(problem)))
		},
			Entry("a lost event", func(h *history.History) {
				h.Streams[0].Events = h.Streams[0].Events[1:]
			}, "watch w delivered no event of the acknowledged create k=a at 101"),
			Entry("a lost deletion", func(h *history.History) {
				h.Streams[0].Events = append(h.Streams[0].Events[:2], h.Streams[0].Events[3:]...)
			}, "watch w delivered no event of the acknowledged delete k if b"),
			Entry("an event that is delivered twice", func(h *history.History) {
				h.Streams[1].Events = append(h.Streams[1].Events, h.Streams[1].Events[4])
			}, "watch w delivered revision 109 (MODIFIED k=d) after revision 109"),
			Entry("events out of order", func(h *history.History) {
				events := h.Streams[0].Events
				events[0], events[1] = events[1], events[0]
			}, "delivered revision 101 (ADDED k=a) after revision 103"),
			Entry("an event from before the stream's start", func(h *history.History) {
				h.Streams[0].Start = 101
			}, "after revision 101"),
			Entry("an event that no write explains", func(h *history.History) {
				h.Streams[0].Events = append(h.Streams[0].Events, event(history.Modified, "x", 111, 12))
			}, "MODIFIED k=x at revision 111, which no write explains"),
			Entry("an event of a write that was refused", func(h *history.History) {
				h.Operations = append(h.Operations, with(update(by(2, 12, 13), "d", "e", 0), history.Rejected))
				h.Streams[0].Events = append(h.Streams[0].Events, event(history.Modified, "e", 111, 12))
			}, "MODIFIED k=e at revision 111, which no write explains"),
			Entry("an event with another revision than the answer", func(h *history.History) {
				h.Streams[0].Events[0].Revision = 102
			}, "ADDED k=a at revision 102, which no write explains"),
			Entry("an event of another type than the write's", func(h *history.History) {
				h.Streams[0].Events[3].Type = history.Modified
			}, "MODIFIED k=c at revision 107, which no write explains"),
			Entry("a deletion that nobody asked for", func(h *history.History) {
				h.Streams[0].Events = append(h.Streams[0].Events, event(history.Deleted, "d", 111, 12))
			}, "DELETED k=d at revision 111, which no write explains"),
			Entry("a change that skips one", func(h *history.History) {
				h.Operations = append(h.Operations, with(update(by(2, 12, 13), "x", "e", 0), history.Unknown))
				h.Streams[0].Events = append(h.Streams[0].Events, event(history.Modified, "e", 111, 12))
			}, "from d to e, which was written over x"),
			Entry("two stories of one revision", func(h *history.History) {
				h.Operations = append(h.Operations, with(update(by(2, 12, 13), "d", "e", 0), history.Unknown),
					with(update(by(3, 12, 13), "d", "f", 0), history.Unknown))
				h.Streams[0].Events = append(h.Streams[0].Events, event(history.Modified, "e", 111, 12))
				h.Streams[1].Events = append(h.Streams[1].Events, event(history.Modified, "f", 111, 12))
			}, "another one MODIFIED k=e"),
			Entry("a stream that was not followed to its end", func(h *history.History) {
				h.Streams[1].Complete = false
			}, "was not checked to its end"),
			Entry("streams that all have gaps", func(h *history.History) {
				for _, s := range h.Streams {
					s.Gaps = []history.Gap{{After: 101, Until: 102}}
				}
			}, "no watch holds the whole history"),
			Entry("a read that is older than what was delivered", func(h *history.History) {
				h.Operations[len(h.Operations)-1] = read(by(1, 20, 21), "c", 107)
			}, "client 1 read k=c at revision 107 after a watch had delivered revision 109"),
			Entry("a read that misses what was delivered", func(h *history.History) {
				h.Operations[len(h.Operations)-1] = read(by(1, 20, 21), "", 0)
			}, "found k absent after a watch had delivered it at revision 109"),
		)

		It("should count a write as lost if no watch has seen it", func() {
			for _, s := range story.Streams {
				s.Events = s.Events[1:]
			}
			verdict := history.Check(story, anything)
			Expect(verdict.Lost).To(ConsistOf(HaveField("Value", "a")))
		})

		It("should count a delete as lost that had to be repeated", func() {
			story.Operations = append(story.Operations[:2], remove(by(0, 4, 5), "b"), read(by(2, 6, 7), "b", 103),
				remove(by(1, 8, 9), "b"))
			for _, s := range story.Streams {
				s.Events = s.Events[:3]
			}
			Expect(history.Check(story, anything).Lost).To(HaveLen(1))
		})

		It("should settle an unknown write by what a watch has seen, so that the search has less to do", func() {
			// Had the write been left open, it could have come last and the second read would be explained.
			story.Operations[5] = read(by(1, 20, 21), "c", 107)
			Expect(history.Check(story, anything).Linearizable).To(Equal("Illegal"))
		})

		It("should take an unknown write that no watch has seen for one that was not carried out", func() {
			for _, s := range story.Streams {
				s.Events = s.Events[:4]
			}
			story.Operations[5] = with(update(by(1, 20, 21), "c", "e", 0), history.Rejected)
			Expect(history.Check(story, anything).Linearizable).To(Equal("Illegal"))
		})

		It("should leave a delete open that another one may have been", func() {
			story.Operations = append(story.Operations[:2],
				with(remove(by(0, 4, 5), "b"), history.Unknown), with(remove(by(1, 4, 5), "b"), history.Unknown),
				read(by(1, 20, 21), "", 0))
			for _, s := range story.Streams {
				s.Events = s.Events[:3]
			}
			Expect(history.Check(story, anything).Err()).NotTo(HaveOccurred())
		})
	})

	It("should not drown the reader in problems of one sort", func() {
		s := stream()
		for i := range 30 {
			s.Events = append(s.Events, event(history.Added, "x", uint64(101+i), 1))
		}
		verdict := history.Check(&history.History{Streams: []*history.Stream{s}}, anything)
		Expect(len(verdict.Problems)).To(BeNumerically("<", 30))
		Expect(verdict.Problems).To(ContainElement("and 20 more like it (explanation)"))
	})
})

var _ = Describe("Window", func() {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := &history.History{Begin: begin, Operations: operations{
		create(by(0, 0, 1), "a", 101), update(by(0, 2, 4), "a", "b", 102),
		with(update(by(0, 5, 6), "b", "c", 0), history.Unknown),
		with(read(by(1, 5, 7), "", 0), history.Failed), with(update(by(1, 6, 8), "a", "d", 0), history.Rejected),
		update(by(1, 9, 11), "b", "e", 103), read(by(1, 12, 13), "e", 103),
	}}

	DescribeTable("should sum up a part of the history", func(from, to int, expected history.Window) {
		Expect(h.Window(begin.Add(time.Duration(from)*time.Second), begin.Add(time.Duration(to)*time.Second))).
			To(Equal(expected))
	},
		Entry("all", 0, 14, history.Window{Requests: 7, Failed: 2, LongestWriteGap: 7 * time.Second}),
		Entry("from the middle", 5, 12, history.Window{Requests: 4, Failed: 2, LongestWriteGap: 6 * time.Second}),
		Entry("without a write", 5, 10, history.Window{Requests: 3, Failed: 2, LongestWriteGap: 5 * time.Second}),
		Entry("a gap at the end", 11, 20, history.Window{Requests: 2, LongestWriteGap: 9 * time.Second}),
	)
})
