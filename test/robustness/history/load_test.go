// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/robustness/history"
)

var _ = Describe("Load", func() {
	var (
		store        *memory
		requirements history.Requirements
	)

	BeforeEach(func() {
		store = newMemory()
		requirements = history.Requirements{Clients: 5, Answers: 20, Writes: 10, Streams: 2, Timeout: time.Minute}
	})

	// record runs the load until the store has seen some hundred writes.
	record := func(ctx context.Context) *history.History {
		GinkgoHelper()
		options := history.Options{Interval: time.Millisecond, Keys: 3,
			Seed: uint64(GinkgoRandomSeed())} // #nosec G115 -- any number will do.
		for range requirements.Clients {
			options.Clients = append(options.Clients, store)
		}
		for range requirements.Streams {
			options.Watchers = append(options.Watchers, store)
		}
		load, err := history.Start(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Eventually(store.acknowledged).WithContext(ctx).Should(BeNumerically(">", 300))
		Expect(load.LastAcknowledged()).NotTo(BeZero())
		h, err := load.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		return h
	}

	It("should accept what a correct store answers, watches that are reopened included", func(ctx SpecContext) {
		h := record(ctx)
		verdict := history.Check(h, requirements)
		Expect(verdict.Err()).NotTo(HaveOccurred())
		Expect(verdict.Linearizable).To(Equal("Ok"))
		Expect(verdict.Lost).To(BeEmpty())
		for _, stream := range h.Streams {
			Expect(stream.Complete).To(BeTrue())
			Expect(stream.Established).To(BeNumerically(">", 1))
			Expect(stream.Gaps).To(BeEmpty())
		}
	})

	It("should make all kinds of operations, refused ones among them", func(ctx SpecContext) {
		kinds := map[history.Kind]int{}
		outcomes := map[history.Outcome]int{}
		for _, o := range record(ctx).Operations {
			kinds[o.Kind]++
			outcomes[o.Outcome]++
		}
		Expect(kinds).To(And(HaveKey(history.Read), HaveKey(history.Create), HaveKey(history.Update),
			HaveKey(history.Delete)))
		Expect(outcomes).To(And(HaveKey(history.Done), HaveKey(history.Rejected)))
	})

	It("should cope with writes whose outcome nobody knows", func(ctx SpecContext) {
		store.breakOff = func(write int) (bool, bool) { return write%7 == 0, write%2 == 0 }
		h := record(ctx)
		Expect(history.Check(h, requirements).Err()).NotTo(HaveOccurred())
		unknown := 0
		for _, o := range h.Operations {
			if o.Outcome == history.Unknown {
				unknown++
				Expect(o.Error).To(Equal(errBroken.Error()))
			}
		}
		Expect(unknown).To(BeNumerically(">", 10))
	})

	It("should find an acknowledged write that is not there", func(ctx SpecContext) {
		store.swallow = once(100)
		verdict := history.Check(record(ctx), requirements)
		Expect(verdict.Lost).To(HaveLen(1))
		Expect(verdict.Err()).To(MatchError(ContainSubstring("is lost: no watch has seen it")))
	})

	It("should find an event that watches leave out", func(ctx SpecContext) {
		store.hide = func(event history.Event) bool { return event.Revision == 150 }
		verdict := history.Check(record(ctx), requirements)
		Expect(verdict.Err()).To(MatchError(ContainSubstring("watch watch-0 delivered no event of the acknowledged")))
	})

	It("should refuse a run with too little load", func(ctx SpecContext) {
		h := record(ctx)
		requirements.Answers = 1 << 20
		Expect(history.Check(h, requirements).Err()).To(MatchError(ContainSubstring("too little load: client 4 has")))
	})

	It("should refuse a run with too few watches", func(ctx SpecContext) {
		h := record(ctx)
		requirements.Streams = 3
		Expect(history.Check(h, requirements).Err()).
			To(MatchError(ContainSubstring("only 2 of 3 watches were followed")))
	})

	It("should refuse to start without watches", func(ctx SpecContext) {
		_, err := history.Start(ctx, history.Options{Clients: []history.Store{store}})
		Expect(err).To(MatchError(ContainSubstring("needs clients and watches")))
	})

	It("should tell that the history could not be brought to its end", func(ctx SpecContext) {
		load, err := history.Start(ctx,
			history.Options{Clients: []history.Store{store}, Watchers: []history.Watcher{store},
				Interval: time.Millisecond})
		Expect(err).NotTo(HaveOccurred())
		Eventually(store.acknowledged).WithContext(ctx).Should(BeNumerically(">", 10))
		store.mu.Lock()
		store.breakOff = func(int) (bool, bool) { return true, false }
		store.mu.Unlock()
		stopCtx, cancel := context.WithCancel(ctx)
		cancel()
		h, err := load.Stop(stopCtx)
		Expect(err).To(MatchError(ContainSubstring("the last write was not acknowledged: " + errBroken.Error())))
		Expect(h.Streams).To(HaveEach(HaveField("Complete", BeFalse())))
		Expect(history.Check(h, requirements).Err()).To(MatchError(ContainSubstring("was not checked to its end")))
	})

	It("should keep history, verdict and picture, and open the history again", func(ctx SpecContext) {
		store.swallow = once(100)
		h := record(ctx)
		folder := filepath.Join(GinkgoT().TempDir(), "fault-step")
		Expect(history.Keep(folder, h, history.Check(h, requirements))).To(Succeed())

		opened, err := history.Open(filepath.Join(folder, history.FileHistory))
		Expect(err).NotTo(HaveOccurred())
		Expect(opened.Operations).To(Equal(h.Operations))
		Expect(history.Check(opened, requirements).Lost).To(HaveLen(1))
		picture, err := os.ReadFile(filepath.Join(folder, history.FilePicture))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(picture)).To(And(ContainSubstring("<html"), ContainSubstring("key-0")))
		Expect(filepath.Join(folder, history.FileVerdict)).To(BeARegularFile())
	})
})
