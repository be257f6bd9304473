// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/robustness/history"
)

var _ = Describe("Part of a history", func() {
	var h *history.History

	at := func(second int) time.Time { return h.Begin.Add(time.Duration(second) * time.Second) }

	BeforeEach(func() {
		h = &history.History{
			Begin: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			Operations: []history.Operation{
				create(by(0, 1, 2), "a", 101), read(by(1, 3, 6), "a", 101), update(by(0, 4, 7), "a", "b", 102),
				read(by(1, 8, 9), "b", 102),
			},
			Streams: []*history.Stream{stream(event(history.Added, "a", 101, 2), event(history.Modified, "b", 102, 7))},
		}
	})

	It("should know until a moment what was known then", func() {
		known := h.Until(at(5))
		Expect(known.Operations).To(Equal([]history.Operation{
			create(by(0, 1, 2), "a", 101),
			with(read(by(1, 3, 6), "", 0), history.Failed),
			with(update(by(0, 4, 7), "a", "b", 0), history.Unknown),
		}))
		Expect(known.Streams).To(HaveLen(1))
		Expect(known.Streams[0].Complete).To(BeFalse())
		Expect(known.Streams[0].Events).To(Equal([]history.Event{event(history.Added, "a", 101, 2)}))
		Expect(h.Operations[2].Outcome).To(Equal(history.Done), "the history itself stays as it is")
		Expect(h.Streams[0].Complete).To(BeTrue())
	})

	It("should find the moment from which on no order explains the answers", func() {
		h.Operations[3].Found, h.Operations[3].Revision = "a", 101
		Expect(history.Linearizable(h, time.Minute)).To(Equal("Illegal"))
		Expect(history.Linearizable(h.Until(at(9)), time.Minute)).To(Equal("Ok"))
		Expect(history.Linearizable(h.Until(at(10)), time.Minute)).To(Equal("Illegal"))
	})

	It("should have a digest of its own", func() {
		digest := func(from, to int) string {
			GinkgoHelper()
			digest, err := h.Digest(at(from), at(to))
			Expect(err).NotTo(HaveOccurred())
			return digest
		}
		first, second := digest(0, 5), digest(5, 10)
		Expect(first).To(HaveLen(64))
		Expect(second).NotTo(Equal(first))
		h.Operations[3].Found = "c"
		Expect(digest(0, 5)).To(Equal(first))
		Expect(digest(5, 10)).NotTo(Equal(second))
		h.Streams[0].Events[0].Revision = 99
		Expect(digest(0, 5)).NotTo(Equal(first))
	})
})
