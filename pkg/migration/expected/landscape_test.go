// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package expected_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

var _ = Describe("Landscape", func() {
	annotated := func(name string, facts map[string]any) gardencorev1beta1.Seed {
		GinkgoHelper()
		out := gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
		for annotation, fact := range facts {
			value, err := seedfacts.Encode(fact)
			Expect(err).NotTo(HaveOccurred())
			out.Annotations[annotation] = value
		}
		return out
	}
	probe := func(to string, trip time.Duration, sent int64) seedfacts.Probes {
		return seedfacts.Probes{Connections: []seedfacts.Connection{{Seed: to, Result: &seedfacts.ProbeResult{
			RoundTrip: metav1.Duration{Duration: trip}, Sent: sent}}}}
	}

	It("should take what agents have written on their Seeds", func() {
		slow, fast := &seedfacts.Waits{DNSMargin: minutes(1)}, &seedfacts.Waits{DNSMargin: minutes(2)}
		past := []history.Record{{Name: "live"}}
		l := expected.NewLandscape([]gardencorev1beta1.Seed{
			annotated("seed-a", map[string]any{seedfacts.AnnotationAgent: seedfacts.Agent{Waits: slow},
				seedfacts.AnnotationProbes:         probe("seed-b", 9*time.Millisecond, 1000),
				seedfacts.AnnotationTLSTermination: false}),
			annotated("seed-b", map[string]any{seedfacts.AnnotationAgent: seedfacts.Agent{Waits: fast},
				seedfacts.AnnotationProbes:         probe("seed-a", 8*time.Millisecond, 2000),
				seedfacts.AnnotationTLSTermination: true}),
		}, past)
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
		shoot.Spec.Provider.Workers = make([]gardencorev1beta1.Worker, 2)
		trips := map[expected.Pair]time.Duration{expected.Between("seed-a", "seed-b"): 8 * time.Millisecond}
		Expect(l.Facts(shoot, "seed-a", "seed-b")).To(Equal(expected.Facts{UID: "1", Workers: 2, Source: "seed-a",
			Destination: "seed-b", SourceWaits: slow, DestinationWaits: fast, GatewayKeepsTLS: true, Rate: 1000,
			RoundTrips: trips, Past: past}))
		Expect(l.Facts(shoot, "seed-b", "seed-a")).To(And(HaveField("GatewayKeepsTLS", false),
			HaveField("SourceWaits", fast), HaveField("Rate", int64(2000))))
	})

	It("should know nothing of what is missing, malformed or not measured", func() {
		broken := annotated("seed-a", map[string]any{seedfacts.AnnotationAgent: "no object",
			seedfacts.AnnotationProbes: probe("seed-b", 0, 0)})
		facts := expected.NewLandscape([]gardencorev1beta1.Seed{broken, {}}, nil).
			Facts(&gardencorev1beta1.Shoot{}, "seed-a", "seed-b")
		Expect(facts).To(Equal(expected.Facts{Source: "seed-a", Destination: "seed-b",
			RoundTrips: map[expected.Pair]time.Duration{}}))
		Expect(facts.Plan().Basis).NotTo(BeEmpty())
	})
})
