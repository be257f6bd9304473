// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/seedlook"
)

var _ = Describe("Plan by way of other seeds", func() {
	// far returns an input in which seed-b is too far from seed-a, and seed-m is near to both. No agent makes probes.
	far := func() inspect.PlanInput {
		in := fit()
		in.Seeds = append(in.Seeds, newSeed("seed-m"))
		for i, region := range []string{"a", "b", "m"} {
			in.Seeds[i].Spec.Provider.Region = region
		}
		in.Regions = []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "regions"},
			Data: map[string]string{"a": "b: 300\nm: 100\n", "m": "a: 100\nb: 110\n"}}}
		return in
	}
	plan := func(in inspect.PlanInput, destination string) view.Plan {
		GinkgoHelper()
		p, err := inspect.Plan(in, destination)
		Expect(err).NotTo(HaveOccurred())
		return p
	}
	probes := func(in *inspect.PlanInput, of int, connections map[string]time.Duration) {
		var all seedfacts.Probes
		for to, trip := range connections {
			all.Set(seedfacts.Connection{Seed: to, Result: &seedfacts.ProbeResult{
				Looked:    seedfacts.Looked{LookedAt: metav1.NewTime(looked)},
				RoundTrip: metav1.Duration{Duration: trip}, Sent: 1 << 30, Received: 1 << 30}})
		}
		seedlook.Say(&in.Seeds[of], seedfacts.AnnotationProbes, all)
	}

	It("should show the way with the commands, and still not let it go in one migration", func() {
		p := plan(far(), "seed-b")
		Expect(p.CanGo).To(BeFalse())
		Expect(p.Detour.Hops).To(HaveExactElements(
			And(HaveField("Source", "seed-a"), HaveField("Destination", "seed-m"), HaveField("Distance", 100),
				HaveField("ExpectedSeconds", p.ExpectedSeconds)),
			And(HaveField("Source", "seed-m"), HaveField("Destination", "seed-b"), HaveField("Distance", 110))))
		Expect(p.Detour.ExpectedSeconds).To(Equal(p.Detour.Hops[0].ExpectedSeconds + p.Detour.Hops[1].ExpectedSeconds))
		Expect(p.Detour.Measure).To(BeEmpty())
		Expect(p.Detour.Commands).To(HaveExactElements(
			"kubectl livecpm start live -n garden-demo --to seed-m --watch",
			"kubectl livecpm start live -n garden-demo --to seed-b --watch"))
		Expect(p.Next).To(Equal("kubectl livecpm plan live -n garden-demo --to seed-m"))
		Expect(p.Text(view.Options{})).To(ContainSubstring("no probes"))
	})

	It("should name what is not measured, and take it for near only when it is", func() {
		in := far()
		probes(&in, 0, map[string]time.Duration{"seed-m": 60 * time.Millisecond})
		probes(&in, 1, nil)
		probes(&in, 2, map[string]time.Duration{"seed-a": 61 * time.Millisecond})
		p := plan(in, "seed-b")
		Expect(p.Detour.NotMeasured()).To(HaveExactElements(And(HaveField("Source", "seed-m"),
			HaveField("Why", ContainSubstring("seed seed-b has no recent probe of the connection to seed seed-m")))))
		Expect(p.Detour.Hops[0].RoundTripSeconds).To(Equal(0.061))
		Expect(p.Detour.Measure).To(Equal("kubectl livecpm plan live -n garden-demo --to seed-b --probe"))
		Expect(p.Next).To(Equal(p.Detour.Measure))

		probes(&in, 1, map[string]time.Duration{"seed-m": 70 * time.Millisecond})
		probes(&in, 2, map[string]time.Duration{"seed-a": 61 * time.Millisecond, "seed-b": 70 * time.Millisecond})
		Expect(plan(in, "seed-b").Detour.NotMeasured()).To(BeEmpty())

		probes(&in, 1, map[string]time.Duration{"seed-m": 101 * time.Millisecond})
		p = plan(in, "seed-b")
		Expect(p.Detour.Hops).To(BeEmpty())
		Expect(p.Text(view.Options{})).To(ContainSubstring("no chain of at most 3 migrations leads there"))
		Expect(p.Next).To(Equal("kubectl livecpm plan live -n garden-demo --to seed-b"))
	})

	It("should expect each migration to take as long as past ones", func() {
		in := far()
		before := plan(in, "seed-b").Detour.ExpectedSeconds
		in.Past = []history.Record{{Source: "seed-m", Destination: "seed-b", Result: history.Succeeded}}
		for _, step := range plan(in, "seed-b").Steps {
			in.Past[0].Steps = append(in.Past[0].Steps, history.Step{Condition: step.Condition, Seconds: 1000})
		}
		Expect(plan(in, "seed-b").Detour.ExpectedSeconds).To(BeNumerically(">", before))
	})

	It("should not lead a shoot with workers by a seed whose agent does not permit them", func() {
		in := far()
		in.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "one"}}
		in.Shoot.Spec.Networking = &gardencorev1beta1.Networking{Nodes: new("10.0.0.0/16")}
		for i := range in.Seeds {
			in.Seeds[i].Annotations[seedfacts.AnnotationTLSTermination] = "false"
			in.Seeds[i].Annotations[seedfacts.AnnotationWorkers] = "true"
		}
		Expect(plan(in, "seed-b").Detour.Hops).NotTo(BeEmpty())
		in.Seeds[2].Annotations[seedfacts.AnnotationWorkers] = "false"
		Expect(plan(in, "seed-b").Detour.Hops).To(BeEmpty())
	})

	It("should show it without a destination, too, if nothing better is known", func() {
		in := far()
		in.Seeds[2].Spec.Settings = &gardencorev1beta1.SeedSettings{
			Scheduling: &gardencorev1beta1.SeedSettingScheduling{Visible: true}}
		p := plan(in, "")
		Expect(p.Destination).To(Equal("seed-m"))
		Expect(p.Detour).To(BeNil(), "it can go there")
	})

	DescribeTable("should show none", func(change func(*inspect.PlanInput)) {
		in := far()
		change(&in)
		Expect(plan(in, "seed-b").Detour).To(BeNil())
	},
		Entry("if the destination is near", func(in *inspect.PlanInput) { in.Seeds[1].Spec.Provider.Region = "a" }),
		Entry("if the versions differ as well", func(in *inspect.PlanInput) {
			in.Seeds[1].Status.Gardener.Version = "v1.149.0"
		}),
		Entry("if the shoot is not fit", func(in *inspect.PlanInput) { in.Shoot.Spec.ControlPlane = nil }),
		Entry("if the destination is full", func(in *inspect.PlanInput) { in.ShootsPerSeed["seed-b"] = 10 }),
		Entry("if no agent is ready", func(in *inspect.PlanInput) { in.Views[1].Agent.Ready = 0 }),
		Entry("if the distances cannot be read", func(in *inspect.PlanInput) {
			in.Regions, in.Unreadable = nil, map[preflight.Name]string{preflight.RegionDistance: "not permitted"}
		}),
	)

	DescribeTable("should take no way by a seed that does not take the shoot", func(change func(*inspect.PlanInput)) {
		in := far()
		change(&in)
		Expect(plan(in, "seed-b").Detour).To(HaveValue(HaveField("Hops", BeEmpty())))
	},
		Entry("it has another version", func(in *inspect.PlanInput) {
			in.Seeds[2].Status.Gardener.Version = "v1.149.0"
		}),
		Entry("it is of another provider", func(in *inspect.PlanInput) { in.Seeds[2].Spec.Provider.Type = "other" }),
		Entry("it is full", func(in *inspect.PlanInput) { in.ShootsPerSeed["seed-m"] = 10 }),
		Entry("it is hidden", func(in *inspect.PlanInput) {
			in.Seeds[2].Spec.Settings = &gardencorev1beta1.SeedSettings{
				Scheduling: &gardencorev1beta1.SeedSettingScheduling{}}
		}),
		Entry("it is drained", func(in *inspect.PlanInput) {
			in.Seeds[2].Annotations["migration.gardener.cloud/drain"] = "true"
		}),
		Entry("it has a taint", func(in *inspect.PlanInput) {
			in.Seeds[2].Spec.Taints = []gardencorev1beta1.SeedTaint{{Key: "protected"}}
		}),
		Entry("the Shoot does not select it", func(in *inspect.PlanInput) {
			in.Shoot.Spec.SeedSelector = &gardencorev1beta1.SeedSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"for": "others"}}}
		}),
		Entry("nobody knows how far it is", func(in *inspect.PlanInput) {
			in.Regions[0].Data["m"] = "a: 100\n"
		}),
	)
})
