// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/test/seedlook"
)

// hurriedClock is a clock on which nobody waits, and agents do something meanwhile.
type hurriedClock struct {
	*testclock.FakeClock
	meanwhile func()
}

// After lets much time pass: each look is a request, and clients are held back.
func (c hurriedClock) After(d time.Duration) <-chan time.Time {
	c.Step(max(d, 4*time.Minute))
	if c.meanwhile != nil {
		c.meanwhile()
	}
	passed := make(chan time.Time, 1)
	passed <- c.Now()
	return passed
}

var _ = Describe("plan --probe", func() {
	const late = "the probe of the connection timed out after 15m0s: waited for a result from seed "
	var (
		out, errs bytes.Buffer
		clock     hurriedClock
		garden    *servedGarden
		p         plannable
		run       = func(more ...string) exit.Code {
			GinkgoHelper()
			out.Reset()
			errs.Reset()
			p.into(garden)
			clock.SetTime(time.Now())
			args := append([]string{"plan", "live", "--to", "seed-b", "--probe", "--kubeconfig", garden.kubeconfig()},
				more...)
			return app.RunAt(context.Background(), clock, app.Streams{Out: &out, Err: &errs}, args)
		}
	)

	BeforeEach(func() {
		GinkgoT().Setenv("XDG_CONFIG_HOME", GinkgoT().TempDir())
		GinkgoT().Setenv("XDG_CACHE_HOME", GinkgoT().TempDir())
		clock = hurriedClock{FakeClock: testclock.NewFakeClock(time.Now())}
		garden, p = newServedGarden(), newPlannable()
		seedlook.Say(p.seedA, seedfacts.AnnotationProbes, seedfacts.Probes{})
		seedlook.Say(p.seedB, seedfacts.AnnotationProbes, seedfacts.Probes{})
	})

	It("should end with 3 if the agents do not complete it, and say what it has waited for", func() {
		Expect(run()).To(Equal(exit.Timeout), errs.String())
		Expect(errs.String()).To(HaveSuffix("error: " + late + "seed-a and from seed seed-b\n"))
		Expect(out.String()).To(ContainSubstring("Not ready to migrate: 1 check did not pass."))

		var plan view.Plan
		Expect(run("-o", "json")).To(Equal(exit.Timeout))
		Expect(json.Unmarshal(out.Bytes(), &plan)).To(Succeed())
		Expect(plan.ProbeTimedOut).To(Equal(late + "seed-a and from seed seed-b"))
	})

	It("should end with 3 if one agent does not, and what was found before is not what was asked for", func() {
		seedlook.Connected(p.seedA, p.seedB, clock.Now())
		clock.meanwhile = func() {
			result := seedfacts.ProbeResult{Looked: seedfacts.Looked{LookedAt: metav1.NewTime(clock.Now())},
				RoundTrip: metav1.Duration{Duration: time.Millisecond}, Sent: 100 << 20, Received: 80 << 20}
			seed := p.seedA.DeepCopy()
			seedlook.Say(seed, seedfacts.AnnotationProbes, seedfacts.Probes{
				Connections: []seedfacts.Connection{{Seed: "seed-b", Result: &result}}})
			garden.put(seed)
		}
		Expect(run()).To(Equal(exit.Timeout), errs.String())
		Expect(errs.String()).To(HaveSuffix("error: " + late + "seed-b\n"))
		Expect(out.String()).To(ContainSubstring("Ready to migrate."))
	})

	It("should end with 1 if something else is in the way", func() {
		p = single(p)
		Expect(run()).To(Equal(exit.No), errs.String())
		Expect(errs.String()).To(HaveSuffix("Besides, " + late + "seed-a and from seed seed-b.\n"))
	})

	It("should end with 1 if what was found before is in the way", func() {
		result := &seedfacts.ProbeResult{Looked: seedfacts.Looked{LookedAt: metav1.NewTime(clock.Now())},
			Problems: []string{"the gateway does not route"}}
		seedlook.Say(p.seedA, seedfacts.AnnotationProbes, seedfacts.Probes{
			Connections: []seedfacts.Connection{{Seed: "seed-b", Result: result}}})
		Expect(run()).To(Equal(exit.No), errs.String())
		Expect(out.String()).To(ContainSubstring("the gateway does not route"))
	})

	It("should have the connections on the way to a distant destination probed, too", func() {
		seedM := p.seedB.DeepCopy()
		seedM.Name, seedM.Spec.Ingress.Domain = "seed-m", "ingress.seed-m.example.org"
		seeds := map[string]*gardencorev1beta1.Seed{"seed-a": p.seedA, "seed-b": p.seedB, "seed-m": seedM}
		for name, seed := range seeds {
			seed.Spec.Provider.Region = name
		}
		regions := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "regions",
			Labels:      map[string]string{"scheduling.gardener.cloud/purpose": "region-config"},
			Annotations: map[string]string{"scheduling.gardener.cloud/cloudprofiles": "local"}},
			Data: map[string]string{"seed-a": "seed-m: 100\nseed-b: 300\n", "seed-m": "seed-a: 100\nseed-b: 110\n"}}
		garden.put(seedM, regions)
		// The agents answer what they are asked.
		probed := map[string]*seedfacts.Probes{"seed-a": {}, "seed-b": {}, "seed-m": {}}
		clock.meanwhile = func() {
			for name, seed := range seeds {
				for other := range seeds {
					if garden.annotation("/apis/core.gardener.cloud/v1beta1/seeds/"+name,
						seedfacts.ProbeRequest(other)) != "" {
						probed[name].Set(seedfacts.Connection{Seed: other, Result: &seedfacts.ProbeResult{
							Looked:    seedfacts.Looked{LookedAt: metav1.NewTime(clock.Now())},
							RoundTrip: metav1.Duration{Duration: 50 * time.Millisecond}, Sent: 1 << 30,
							Received: 1 << 30}})
					}
				}
				seedlook.Say(seed, seedfacts.AnnotationProbes, probed[name])
				garden.put(seed)
			}
		}
		Expect(run()).To(Equal(exit.No), errs.String())
		for _, pair := range []string{"seed-a and seed-b", "seed-a and seed-m", "seed-m and seed-b"} {
			Expect(errs.String()).To(ContainSubstring("Probing the connection between seeds " + pair))
		}
		Expect(out.String()).To(And(ContainSubstring("BY WAY OF seed seed-m (2 migrations"),
			MatchRegexp(`seed-m +seed-b +110 +50ms`), Not(ContainSubstring("not measured"))))
	})

	It("should end with the answer if both agents complete it", func() {
		clock.meanwhile = func() {
			seedlook.Connected(p.seedA, p.seedB, clock.Now())
			garden.put(p.seedA, p.seedB)
		}
		Expect(run()).To(Equal(exit.Done), errs.String())
		Expect(errs.String()).NotTo(ContainSubstring("timed out"))
	})
})
