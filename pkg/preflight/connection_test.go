// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/seedlook"
)

// probed returns a world whose agents have probed the connection.
func probed() preflight.Facts {
	w := fit()
	seedlook.Connected(w.Source.Seed, w.Destination.Seed, now)
	return w
}

// found changes what the agent of the seed has found on the way to the other one.
func found(seed *gardencorev1beta1.Seed, change func(*seedfacts.Connection)) {
	GinkgoHelper()
	var probes seedfacts.Probes
	Expect(seedfacts.Of(seed, seedfacts.AnnotationProbes, &probes)).To(Succeed())
	Expect(probes.Connections).To(HaveLen(1))
	connection := probes.Connections[0]
	change(&connection)
	probes.Set(connection)
	seedlook.Say(seed, seedfacts.AnnotationProbes, probes)
}

// connection returns the finding about the connection, or nil if that is not checked.
func connection(w preflight.Facts) *preflight.Finding {
	findings := preflight.Evaluate(w)
	i := slices.IndexFunc(findings, func(f preflight.Finding) bool { return f.Name == preflight.SeedConnection })
	if i < 0 {
		return nil
	}
	return &findings[i]
}

var _ = Describe("The connection between the seeds", func() {
	It("should show what was measured, and what the new members cost", func() {
		Expect(connection(probed())).To(HaveValue(And(
			HaveField("Status", preflight.Pass),
			HaveField("Evidence", "round trip 2ms, 80.0 MiB/s to seed seed-b, 80.0 MiB/s back, clocks differ by 1ms; "+
				"a write takes up to a round trip longer while etcd's quorum needs both seeds; 12Gi leave seed "+
				"seed-a for the new members, in about 2m34s, and what clients write meanwhile"))))
	})

	It("should say for how large a control plane the destination had room", func() {
		w := probed()
		room := &seedfacts.Room{Pods: 14, CPU: resource.MustParse("3400m"), Memory: resource.MustParse("6Gi")}
		found(w.Source.Seed, func(c *seedfacts.Connection) { c.Result.Room = &seedfacts.Room{Pods: 1} })
		Expect(connection(w).Evidence).NotTo(ContainSubstring("room"), "it moves the other way")
		found(w.Destination.Seed, func(c *seedfacts.Connection) { c.Result.Room = room })
		Expect(connection(w)).To(HaveValue(And(HaveField("Status", preflight.Pass), HaveField("Evidence", HaveSuffix(
			"; seed seed-b had room for the largest control plane that waited (14 pods, 3.40 CPU, 6.0 GiB)")))))
	})

	It("should say how many images of control planes the destination could pull, if its agent has tried", func() {
		w := probed()
		found(w.Source.Seed, func(c *seedfacts.Connection) { c.Result.Images = []string{"kube-apiserver:v1.34.3"} })
		Expect(connection(w).Evidence).NotTo(ContainSubstring("image"), "it moves the other way")
		found(w.Destination.Seed, func(c *seedfacts.Connection) { c.Result.Images = []string{"a:1", "b:1"} })
		Expect(connection(w)).To(HaveValue(And(HaveField("Status", preflight.Pass), HaveField("Evidence", HaveSuffix(
			"; its nodes have the 2 images of the control planes that waited, or could pull them")))))
	})

	It("should not count before any other step", func() {
		w := probed()
		found(w.Source.Seed, func(c *seedfacts.Connection) { c.Result.Problems = []string{"broken"} })
		w.OwnSeed = "seed-b"
		Expect(connection(w)).To(BeNil(), "the destination begins when a migration is under way")
		for _, step := range steps.Table() {
			for _, finding := range preflight.EvaluateStep(w, step) {
				Expect(finding.Name).NotTo(Equal(preflight.SeedConnection))
			}
		}
	})

	It("should not count once the migration has begun", func() {
		w := probed()
		found(w.Source.Seed, func(c *seedfacts.Connection) { c.Result.Problems = []string{"broken"} })
		w.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{}
		for _, conditionType := range steps.ConditionTypes() {
			w.Shoot.Status.LiveMigration.Conditions = append(w.Shoot.Status.LiveMigration.Conditions,
				gardencorev1beta1.Condition{Type: conditionType, Status: gardencorev1beta1.ConditionUnknown})
		}
		Expect(connection(w)).NotTo(BeNil())
		w.Shoot.Status.LiveMigration.Conditions[0].Status = gardencorev1beta1.ConditionProgressing
		Expect(connection(w)).To(BeNil())
	})

	ofSource := func(change func(*seedfacts.ProbeResult)) func(*preflight.Facts) {
		return func(w *preflight.Facts) {
			found(w.Source.Seed, func(c *seedfacts.Connection) { change(c.Result) })
		}
	}
	ofDestination := func(change func(*seedfacts.ProbeResult)) func(*preflight.Facts) {
		return func(w *preflight.Facts) {
			found(w.Destination.Seed, func(c *seedfacts.Connection) { change(c.Result) })
		}
	}

	DescribeTable("should hold before the first step, and refuse a plan", func(
		plant func(*preflight.Facts), evidence string,
	) {
		w := probed()
		plant(&w)
		refused := And(HaveField("Status", preflight.Fail), HaveField("Reason", steps.ReasonConnectionUnfit),
			HaveField("Evidence", ContainSubstring(evidence)),
			HaveField("Remedy", ContainSubstring("controllers.liveMigration.probe=false")))
		Expect(connection(w)).To(HaveValue(refused))
		w.Planned = true
		Expect(connection(w)).To(HaveValue(refused))
	},
		Entry("what the source has found", ofSource(func(r *seedfacts.ProbeResult) {
			r.RoundTrip.Duration, r.Problems = 0, []string{"image relay: ErrImagePull"}
		}), "from seed seed-a to seed seed-b: image relay: ErrImagePull"),
		Entry("what the destination has found", ofDestination(func(r *seedfacts.ProbeResult) {
			r.RoundTrip.Duration, r.Problems = 0, []string{"no node takes pod livecpm-relay-0"}
		}), "from seed seed-b to seed seed-a: no node takes pod livecpm-relay-0"),
		Entry("an image that a node of the destination cannot pull", ofDestination(func(r *seedfacts.ProbeResult) {
			r.RoundTrip.Duration, r.Problems = 0, []string{"node n cannot pull image a:1 of etcd: ErrImagePull: no"}
		}), "from seed seed-b to seed seed-a: node n cannot pull image a:1 of etcd: ErrImagePull: no"),
		Entry("a long round trip", ofSource(func(r *seedfacts.ProbeResult) {
			r.RoundTrip.Duration = 101 * time.Millisecond
		}), "the round trip from seed seed-a to seed seed-b takes 101ms, at most 100ms is permitted"),
		Entry("a round trip that is too long for any shoot", func(w *preflight.Facts) {
			w.Shoot.Annotations["migration.gardener.cloud/allow-distant-regions"] = "true"
			ofSource(func(r *seedfacts.ProbeResult) { r.RoundTrip.Duration = 301 * time.Millisecond })(w)
		}, "takes 301ms, at most 300ms is permitted"),
		Entry("a clock that is ahead", ofSource(func(r *seedfacts.ProbeResult) {
			r.ClockSkew.Duration = 11 * time.Second
		}), "the clock of seed seed-b differs from that of seed seed-a by 11s, more than 10s"),
		Entry("a clock that is behind", ofDestination(func(r *seedfacts.ProbeResult) {
			r.ClockSkew.Duration = -11 * time.Second
		}), "the clock of seed seed-a differs from that of seed seed-b by -11s, more than 10s"),
		Entry("a slow way there", ofSource(func(r *seedfacts.ProbeResult) { r.Sent = 1<<20 - 1 }),
			"the connection from seed seed-a to seed seed-b carries"),
		Entry("a slow way back", ofSource(func(r *seedfacts.ProbeResult) { r.Received = 1<<20 - 1 }),
			"the connection from seed seed-b to seed seed-a, as seed seed-a sees it, carries"),
		Entry("a database that is too large for the way", func(w *preflight.Facts) {
			ofSource(func(r *seedfacts.ProbeResult) { r.Sent = 3 << 20 })(w)
		}, "a copy of etcd-main (2Gi) to a new member would take 11m23s at 3.0 MiB/s, more than 10m0s"),
	)

	It("should let shoots that allow distant regions have a longer round trip", func() {
		w := probed()
		w.Shoot.Annotations["migration.gardener.cloud/allow-distant-regions"] = "true"
		ofSource(func(r *seedfacts.ProbeResult) { r.RoundTrip.Duration = 150 * time.Millisecond })(&w)
		Expect(connection(w)).To(HaveValue(HaveField("Status", preflight.Pass)))
	})

	DescribeTable("should hold while it is not known, and leave a plan to the agents unless it has asked", func(
		plant func(*preflight.Facts), reason steps.Reason, evidence string,
	) {
		w := probed()
		plant(&w)
		remedy := HavePrefix("check that the agent")
		if reason == steps.ReasonProbingConnection {
			remedy = HavePrefix("wait: a probe takes a minute or two; if it is not complete after five, check that")
		}
		unknown := And(HaveField("Status", preflight.Unknown), HaveField("Reason", reason),
			HaveField("Evidence", ContainSubstring(evidence)),
			HaveField("Remedy", And(remedy, ContainSubstring("controllers.liveMigration.probe=false"))))
		Expect(connection(w)).To(HaveValue(unknown))
		w.Planned = true
		Expect(connection(w)).To(HaveValue(And(HaveField("Status", preflight.Pass),
			HaveField("Evidence", And(ContainSubstring("the agents probe it before the first step"),
				ContainSubstring(evidence))))))
		w.Probed = true
		Expect(connection(w)).To(HaveValue(unknown))
	},
		Entry("an agent that says nothing about probes", func(w *preflight.Facts) {
			delete(w.Destination.Seed.Annotations, seedfacts.AnnotationProbes)
		}, steps.ReasonPrerequisitesUnknown, "seed seed-b says nothing about probes: Seed seed-b has no annotation"),
		Entry("what cannot be parsed", func(w *preflight.Facts) {
			w.Source.Seed.Annotations[seedfacts.AnnotationProbes] = "{"
		}, steps.ReasonPrerequisitesUnknown, "seed seed-a says nothing about probes: failed to parse"),
		Entry("no probe of this connection", func(w *preflight.Facts) {
			seedlook.Say(w.Source.Seed, seedfacts.AnnotationProbes, seedfacts.Probes{})
		}, steps.ReasonProbingConnection, "seed seed-a has no recent probe of the connection to seed seed-b"),
		Entry("a probe that is under way", func(w *preflight.Facts) {
			found(w.Destination.Seed, func(c *seedfacts.Connection) {
				c.Result, c.Round = nil, &seedfacts.ProbeRound{Began: metav1.NewTime(now)}
			})
		}, steps.ReasonProbingConnection,
			"seed seed-b probes the connection to seed seed-a since 2026-03-04T05:06:00Z"),
		Entry("a probe that is too old", ofSource(func(r *seedfacts.ProbeResult) {
			r.LookedAt = metav1.NewTime(now.Add(-31 * time.Minute))
		}), steps.ReasonProbingConnection, "seed seed-a has no recent probe of the connection to seed seed-b"),
		Entry("a peer that has not taken part", ofSource(func(r *seedfacts.ProbeResult) {
			r.RoundTrip.Duration, r.Unknown = 0, []string{"the agent of seed seed-b has not taken part"}
		}), steps.ReasonPrerequisitesUnknown,
			"from seed seed-a to seed seed-b: the agent of seed seed-b has not taken part"),
		Entry("a probe that has measured nothing", ofSource(func(r *seedfacts.ProbeResult) {
			r.RoundTrip.Duration = 0
		}), steps.ReasonPrerequisitesUnknown, "has measured nothing"),
	)

	DescribeTable("should be left out where an agent makes no probes", func(seed func(preflight.Facts) string) {
		w := probed()
		name := seed(w)
		Expect(connection(w)).To(HaveValue(And(HaveField("Status", preflight.Pass),
			HaveField("Evidence", "left out: the agent of seed "+name+
				" makes no probes (controllers.liveMigration.probe)"))))
	},
		Entry("in the source", func(w preflight.Facts) string {
			seedlook.Say(w.Source.Seed, seedfacts.AnnotationProbes, seedfacts.Probes{Off: true})
			return "seed-a"
		}),
		Entry("in the destination", func(w preflight.Facts) string {
			seedlook.Say(w.Destination.Seed, seedfacts.AnnotationProbes, seedfacts.Probes{Off: true})
			return "seed-b"
		}),
	)
})
