// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedfacts_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

var _ = Describe("Probes", func() {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	resultAt := func(at time.Time) *seedfacts.ProbeResult {
		return &seedfacts.ProbeResult{Looked: seedfacts.Looked{LookedAt: metav1.NewTime(at)}}
	}
	seed := func(annotations map[string]string) *gardencorev1beta1.Seed {
		return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a", Annotations: annotations}}
	}
	request := func(name string, at time.Time) map[string]string {
		return map[string]string{seedfacts.ProbeRequest(name): at.Format(time.RFC3339)}
	}

	It("should keep one connection to each seed, in the order of names", func() {
		var probes seedfacts.Probes
		for _, name := range []string{"seed-c", "seed-b", "seed-c"} {
			probes.Set(seedfacts.Connection{Seed: name, Result: resultAt(now)})
		}
		probes.Set(seedfacts.Connection{Seed: "seed-d"})
		Expect(probes.Connections).To(HaveExactElements(
			HaveField("Seed", "seed-b"), HaveField("Seed", "seed-c")), "nothing is known of seed-d")
		Expect(probes.To("seed-d")).To(Equal(seedfacts.Connection{Seed: "seed-d"}))
	})

	It("should forget what is too old, and not what is under way", func() {
		probes := seedfacts.Probes{Connections: []seedfacts.Connection{
			{Seed: "seed-b", Result: resultAt(now.Add(-31 * time.Minute))},
			{Seed: "seed-c", Result: resultAt(now.Add(-29 * time.Minute))},
			{Seed: "seed-d", Result: resultAt(now.Add(-time.Hour)), Round: &seedfacts.ProbeRound{}},
		}}
		Expect(probes.Forget(now)).To(BeTrue())
		Expect(probes.Connections).To(HaveExactElements(HaveField("Seed", "seed-c"),
			And(HaveField("Seed", "seed-d"), HaveField("Result", BeNil()))))
		Expect(probes.Forget(now)).To(BeFalse())
	})

	DescribeTable("a request", func(annotations map[string]string, counts bool) {
		requests := seedfacts.ProbeRequests(seed(annotations), now)
		if counts {
			Expect(requests).To(HaveLen(1))
		} else {
			Expect(requests).To(BeEmpty())
		}
	},
		Entry("should count", request("seed-b", now.Add(-time.Minute)), true),
		Entry("should count if the clock of the operator is a little ahead", request("seed-b", now.Add(time.Minute)),
			true),
		Entry("should not count if it is too old", request("seed-b", now.Add(-16*time.Minute)), false),
		Entry("should not count if it comes from the future", request("seed-b", now.Add(time.Hour)), false),
		Entry("should not count with another value", map[string]string{seedfacts.ProbeRequest("seed-b"): "true"},
			false),
		Entry("should not count for the seed itself", request("seed-a", now), false),
		Entry("should not count without a seed", request("", now), false),
	)

	It("should drop requests that are answered, too old or malformed, and no others", func() {
		asked := now.Add(-time.Minute)
		s := seed(map[string]string{
			seedfacts.ProbeRequest("answered"): asked.Format(time.RFC3339),
			seedfacts.ProbeRequest("open"):     asked.Format(time.RFC3339),
			seedfacts.ProbeRequest("old"):      now.Add(-time.Hour).Format(time.RFC3339),
			seedfacts.ProbeRequest("strange"):  "yes",
			"other":                            "stays",
		})
		probes := seedfacts.Probes{Connections: []seedfacts.Connection{{Seed: "answered", Result: resultAt(now)},
			{Seed: "open", Result: resultAt(now.Add(-2 * time.Minute))}}}
		Expect(seedfacts.DropRequests(s, probes, now)).To(BeTrue())
		Expect(s.Annotations).To(And(HaveLen(2), HaveKey(seedfacts.ProbeRequest("open")), HaveKey("other")))
		Expect(seedfacts.DropRequests(s, probes, now)).To(BeFalse())
		Expect(seedfacts.DropRequests(s, seedfacts.Probes{Off: true}, now)).To(BeTrue(), "nobody answers it")
	})

	It("should drop the shoot that a request is about with the request", func() {
		s := seed(map[string]string{
			seedfacts.ProbeRequest("open"): now.Format(time.RFC3339), seedfacts.RoomRequest("open"): "garden-demo/live",
			seedfacts.ProbeRequest("old"):  now.Add(-time.Hour).Format(time.RFC3339),
			seedfacts.RoomRequest("old"):   "a/b",
			seedfacts.RoomRequest("alone"): "c/d",
		})
		Expect(seedfacts.DropRequests(s, seedfacts.Probes{}, now)).To(BeTrue())
		Expect(s.Annotations).To(And(HaveLen(2), HaveKey(seedfacts.ProbeRequest("open"))))
		Expect(seedfacts.RoomRequested(s, "open")).To(Equal("garden-demo/live"))
		Expect(seedfacts.RoomRequested(s, "alone")).To(BeEmpty())
	})

	It("should take nothing that was not measured for in order", func() {
		Expect(resultAt(now).InOrder()).To(BeFalse())
	})
})
