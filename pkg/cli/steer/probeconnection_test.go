// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer_test

import (
	"bytes"
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/test/seedlook"
)

// agentsClock is a clock on which agents work while somebody waits.
type agentsClock struct {
	*testclock.FakeClock
	work func()
}

func (c agentsClock) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	c.work()
	passed := make(chan time.Time, 1)
	passed <- c.Now()
	return passed
}

var _ = Describe("ConnectionProbe", func() {
	var (
		ctx    = context.Background()
		begin  = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		garden client.Client
		clk    agentsClock
		out    *bytes.Buffer
		former = begin.Add(-time.Minute)
	)
	seed := func(name string) *gardencorev1beta1.Seed {
		GinkgoHelper()
		seed := &gardencorev1beta1.Seed{}
		Expect(garden.Get(ctx, client.ObjectKey{Name: name}, seed)).To(Succeed())
		return seed
	}
	change := func(name string, mutate func(*gardencorev1beta1.Seed)) {
		GinkgoHelper()
		s := seed(name)
		mutate(s)
		Expect(garden.Update(ctx, s)).To(Succeed())
	}
	has := func(name, other string, at time.Time) {
		change(name, func(s *gardencorev1beta1.Seed) {
			seedlook.Say(s, seedfacts.AnnotationProbes, seedfacts.Probes{Connections: []seedfacts.Connection{{
				Seed: other, Result: &seedfacts.ProbeResult{Looked: seedfacts.Looked{LookedAt: metav1.NewTime(at)}}}}})
		})
	}
	run := func() error {
		return steer.ConnectionProbe{Client: garden, Clock: clk, Out: out}.Do(ctx, "seed-a", "seed-b")
	}

	BeforeEach(func() {
		garden = fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}},
			&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b"}}).Build()
		out = &bytes.Buffer{}
		clk = agentsClock{testclock.NewFakeClock(begin), func() {}}
		has("seed-a", "seed-b", former)
		has("seed-b", "seed-a", former)
	})

	It("should ask both agents and wait until both have found something else", func() {
		looks := 0
		clk.work = func() {
			looks++
			switch looks {
			case 2:
				has("seed-b", "seed-a", clk.Now())
			case 4:
				has("seed-a", "seed-b", clk.Now())
			}
		}
		Expect(run()).To(Succeed())
		Expect(looks).To(Equal(4))
		Expect(seed("seed-a").Annotations).To(HaveKeyWithValue("probe.livecpm.gardener.cloud/seed-b",
			"2026-11-25T12:00:00Z"))
		Expect(seed("seed-b").Annotations).To(HaveKeyWithValue("probe.livecpm.gardener.cloud/seed-a",
			"2026-11-25T12:00:00Z"))
	})

	It("should name the shoot on its own seed, for which room is looked for in the other one", func() {
		clk.work = func() {
			has("seed-b", "seed-a", clk.Now())
			has("seed-a", "seed-b", clk.Now())
		}
		Expect(run()).To(Succeed())
		Expect(seed("seed-a").Annotations).NotTo(HaveKey("room.livecpm.gardener.cloud/seed-b"))
		Expect(steer.ConnectionProbe{Client: garden, Clock: clk, Out: out,
			Shoot: client.ObjectKey{Namespace: "garden-demo", Name: "live"}}.Do(ctx, "seed-a", "seed-b")).To(Succeed())
		Expect(seed("seed-a").Annotations).To(HaveKeyWithValue("room.livecpm.gardener.cloud/seed-b",
			"garden-demo/live"))
		Expect(seed("seed-b").Annotations).NotTo(HaveKey(HavePrefix("room.livecpm")))
	})

	It("should fail when the agents do not complete it, and name those without a result", func() {
		clk.work = func() {}
		Expect(run()).To(MatchError("the probe of the connection timed out after 15m0s: waited for a result from " +
			"seed seed-a and from seed seed-b"))
		clk.work = func() { has("seed-a", "seed-b", clk.Now()) }
		Expect(run()).To(And(MatchError(steer.ErrProbeTimeout), MatchError(HaveSuffix("a result from seed seed-b"))))
	})

	DescribeTable("should not ask where an agent takes no part", func(
		mutate func(*gardencorev1beta1.Seed), why string,
	) {
		change("seed-b", mutate)
		Expect(run()).To(Succeed())
		Expect(out.String()).To(ContainSubstring(why))
		Expect(seed("seed-a").Annotations).NotTo(HaveKey(HavePrefix("probe.livecpm")))
	},
		Entry("because it is turned off", func(s *gardencorev1beta1.Seed) {
			seedlook.Say(s, seedfacts.AnnotationProbes, seedfacts.Probes{Off: true})
		}, "the agent of seed seed-b makes no probes (controllers.liveMigration.probe)"),
		Entry("because it is of another release", func(s *gardencorev1beta1.Seed) {
			delete(s.Annotations, seedfacts.AnnotationProbes)
		}, "the agent of seed seed-b does not say that it takes part"),
	)

	It("should fail where a Seed cannot be read", func() {
		Expect(garden.Delete(ctx, seed("seed-b"))).To(Succeed())
		Expect(run()).To(MatchError(ContainSubstring("failed to read Seed seed-b")))
	})
})
