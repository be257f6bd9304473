// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

var _ = Describe("Schedule", func() {
	const rate = 10

	var (
		begin time.Time
		fake  *testclock.FakeClock

		mu   sync.Mutex
		dues []time.Duration
	)

	BeforeEach(func() {
		begin = time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
		fake = testclock.NewFakeClock(begin)
		dues = nil
	})

	note := func(due time.Time) {
		mu.Lock()
		defer mu.Unlock()
		dues = append(dues, due.Sub(begin))
	}
	noted := func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return append([]time.Duration{}, dues...)
	}
	// start runs the pacer, and returns what ends it and waits for it.
	start := func(p *probe.Pace) (end func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		group.Go(func() { p.Run(ctx) })
		DeferCleanup(func() {
			cancel()
			group.Wait()
		})
		return func() {
			cancel()
			group.Wait()
		}
	}
	// idle waits until the pacer waits for the next request to be due.
	idle := func() {
		GinkgoHelper()
		Eventually(fake.HasWaiters).Should(BeTrue())
	}

	It("should send each request when it is due", func() {
		p := probe.NewPace(fake, rate, 5, note)
		start(p)
		idle()
		Expect(noted()).To(BeEmpty())
		fake.Step(100 * time.Millisecond)
		Eventually(noted).Should(Equal([]time.Duration{100 * time.Millisecond}))
		idle()
		fake.Step(100 * time.Millisecond)
		Eventually(noted).Should(Equal([]time.Duration{100 * time.Millisecond, 200 * time.Millisecond}))
		Expect(p.Counts()).To(Equal(recording.Scheduled{Due: 2}))
	})

	It("should send late what it noticed late, as due when it was due", func() {
		p := probe.NewPace(fake, rate, 10, note)
		start(p)
		idle()
		fake.Step(time.Second)
		Eventually(noted).Should(ConsistOf(100*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond,
			400*time.Millisecond, 500*time.Millisecond, 600*time.Millisecond, 700*time.Millisecond,
			800*time.Millisecond, 900*time.Millisecond, time.Second))
		Expect(p.Counts()).To(Equal(recording.Scheduled{Due: 10}))
	})

	It("should not send what finds nothing free, and count it", func() {
		blocked := make(chan struct{})
		p := probe.NewPace(fake, rate, 3, func(due time.Time) {
			note(due)
			<-blocked
		})
		start(p)
		DeferCleanup(func() { close(blocked) })
		idle()
		fake.Step(time.Second)
		idle()
		Eventually(noted).Should(HaveLen(3))
		Expect(p.Counts()).To(Equal(recording.Scheduled{Due: 10, Unsent: 7}))
	})

	It("should count what was due while nobody woke up to send it", func() {
		p := probe.NewPace(fake, rate, 3, note)
		p.Open()
		fake.Step(3 * time.Second)
		Expect(p.Counts()).To(Equal(recording.Scheduled{Due: 30, Unsent: 30}))
	})

	It("should count what found nothing to send", func() {
		p := probe.NewPace(fake, rate, 3, note)
		p.SendNothing()
		start(p)
		idle()
		fake.Step(100 * time.Millisecond)
		Eventually(p.Counts).Should(Equal(recording.Scheduled{Due: 1, Unsent: 1}))
	})

	It("should let nothing be due after the end of the load", func() {
		p := probe.NewPace(fake, rate, 3, note)
		end := start(p)
		idle()
		fake.Step(200 * time.Millisecond)
		Eventually(noted).Should(HaveLen(2))
		end()
		fake.Step(time.Minute)
		Expect(p.Counts()).To(Equal(recording.Scheduled{Due: 2}))
	})

	It("should let nothing be due before it is possible", func() {
		p := probe.NewPace(fake, rate, 3, note)
		begun := make(chan struct{})
		p.After(begun)
		start(p)
		fake.Step(time.Minute)
		Expect(p.Counts()).To(BeZero())
		close(begun)
		idle()
		fake.Step(100 * time.Millisecond)
		Eventually(noted).Should(Equal([]time.Duration{time.Minute + 100*time.Millisecond}))
		Expect(p.Counts()).To(Equal(recording.Scheduled{Due: 1}))
	})

	It("should count what a client waits from when its request was due", func() {
		Expect(probe.LatencyOf(time.Now().Add(-3 * time.Second))).To(BeNumerically(">=", 3*time.Second))
	})
})
