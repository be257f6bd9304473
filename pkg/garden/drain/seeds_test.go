// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

var _ = Describe("Seeds", func() {
	const (
		visibleBefore = "migration.gardener.cloud/drain-scheduling-visible"
		startedAt     = "migration.gardener.cloud/drain-started-at"
		resumedAt     = "migration.gardener.cloud/drain-resumed-at"
	)
	var (
		visible = func(f *fakeGarden) bool {
			GinkgoHelper()
			return f.seed("seed-a").Spec.Settings.Scheduling.Visible
		}
		annotations = func(f *fakeGarden) map[string]string {
			GinkgoHelper()
			return f.seed("seed-a").Annotations
		}
		condition = func(f *fakeGarden) *gardencorev1beta1.Condition {
			GinkgoHelper()
			return v1beta1helper.GetCondition(f.seed("seed-a").Status.Conditions, "Drained")
		}
		// measured returns the seeds that there are metrics of.
		measured = func() []string {
			GinkgoHelper()
			families, err := runtimemetrics.Registry.Gather()
			Expect(err).NotTo(HaveOccurred())
			var out []string
			for _, family := range families {
				if family.GetName() != "livecpm_drain_circuit_open" {
					continue
				}
				for _, metric := range family.GetMetric() {
					out = append(out, metric.GetLabel()[0].GetValue())
				}
			}
			return out
		}
		starting = func(events []string) int {
			count := 0
			for _, event := range events {
				if strings.HasPrefix(event, "Normal DrainStarted ") {
					count++
				}
			}
			return count
		}
	)

	BeforeEach(func() {
		for _, seed := range measured() {
			metrics.ForgetDrain(seed)
		}
	})

	It("should leave seeds alone that nobody drains", func() {
		f := newGarden(newSeed("seed-a"), newSeed("seed-b"), newShoot("x"))
		Expect(f.reconcile()).To(Equal(reconcile.Result{}))
		Expect(f.writes).To(BeEmpty())
	})

	It("should hide a seed that is drained, and keep in the same write what was before", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"))
		f.reconcile()
		Expect(visible(f)).To(BeFalse())
		Expect(annotations(f)).To(And(
			HaveKeyWithValue(visibleBefore, "true"), HaveKeyWithValue(startedAt, "2026-11-20T10:00:00Z"),
			HaveKeyWithValue(resumedAt, "2026-11-20T10:00:00Z"),
		))
		Expect(f.writes[0]).To(Equal("patch Seed seed-a"))
		Expect(f.told()[0]).To(HavePrefix("Normal DrainStarted "))
		Expect(f.seed("seed-b").Spec.Settings.Scheduling.Visible).To(BeTrue())
	})

	DescribeTable("should give the seed back to the scheduler as it was",
		func(change func(*gardencorev1beta1.Seed), expected bool) {
			f := newGarden(newSeed("seed-a", asked(), change), newSeed("seed-b"))
			f.reconcile()
			Expect(f.seed("seed-a").Spec.Settings.Scheduling.Visible).To(BeFalse())
			f.changeSeed("seed-a", cancelled)
			f.reconcile()
			Expect(visible(f)).To(Equal(expected))
			Expect(annotations(f)).NotTo(HaveKey(visibleBefore))
			Expect(f.told()).To(ContainElement(HavePrefix("Normal DrainCancelled ")))
		},
		Entry("visible", func(*gardencorev1beta1.Seed) {}, true),
		Entry("hidden", func(s *gardencorev1beta1.Seed) { s.Spec.Settings.Scheduling.Visible = false }, false),
		Entry("without settings, which stands for visible", func(s *gardencorev1beta1.Seed) { s.Spec.Settings = nil },
			true),
		Entry("when what was kept cannot be read", func(s *gardencorev1beta1.Seed) {
			asked("scheduling-visible", "perhaps")(s)
		}, true),
	)

	It("should hide the seed again when its gardenlet has written it again, without beginning again", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"))
		f.reconcile()
		f.clock.Step(time.Hour)
		f.changeSeed("seed-a", func(s *gardencorev1beta1.Seed) { s.Spec.Settings.Scheduling.Visible = true })
		f.reconcile()
		Expect(visible(f)).To(BeFalse())
		Expect(annotations(f)).
			To(And(HaveKeyWithValue(visibleBefore, "true"), HaveKeyWithValue(resumedAt, "2026-11-20T10:00:00Z")))
		Expect(starting(f.told())).To(Equal(1))
	})

	It("should remember over a cancellation when the drain began, and forget it when the drain is complete", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x", single))
		f.reconcile()
		f.changeSeed("seed-a", cancelled)
		f.reconcile()
		Expect(annotations(f)).To(And(HaveKeyWithValue(startedAt, "2026-11-20T10:00:00Z"), Not(HaveKey(resumedAt))))

		f.clock.Step(time.Hour)
		f.changeSeed("seed-a", asked())
		f.reconcile()
		Expect(annotations(f)).To(And(HaveKeyWithValue(startedAt, "2026-11-20T10:00:00Z"),
			HaveKeyWithValue(resumedAt, "2026-11-20T11:00:00Z")))

		Expect(f.Delete(context.Background(), f.shoot("x"))).To(Succeed())
		f.reconcile()
		Expect(condition(f)).To(HaveField("Status", gardencorev1beta1.ConditionTrue))
		f.changeSeed("seed-a", cancelled)
		f.reconcile()
		Expect(slices.Collect(maps.Keys(annotations(f)))).
			To(ConsistOf(seedfacts.AnnotationClusterDNS, seedfacts.AnnotationDNSAccess,
				seedfacts.AnnotationExtensions, seedfacts.AnnotationBackups, seedfacts.AnnotationProbes),
				"they are not the drain's")
	})

	It("should publish condition and table, and write only what changes", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x", single), newShoot("y", single))
		f.reconcile()
		Expect(condition(f)).
			To(And(HaveField("Status", gardencorev1beta1.ConditionFalse), HaveField("Reason", "ShootsBlocked")))
		Expect(f.seed("seed-a").Status.Conditions).To(HaveLen(4))
		Expect(f.told()).To(ContainElement(HavePrefix("Warning ShootsBlocked ")))
		configMap, err := f.configMap("seed-a")
		Expect(err).NotTo(HaveOccurred())
		Expect(configMap.Labels).To(HaveKeyWithValue("migration.gardener.cloud/drained-seed", "seed-a"))
		Expect(configMap.OwnerReferences).
			To(ConsistOf(And(HaveField("Kind", "Seed"), HaveField("UID", f.seed("seed-a").UID))))
		Expect(f.table("seed-a")).To(HaveLen(2))

		f.writes = nil
		f.clock.Step(time.Minute)
		f.reconcile()
		Expect(f.writes).To(BeEmpty())
		Expect(f.told()).To(BeEmpty())

		By("another number of shoots, and nothing new otherwise")
		Expect(f.Delete(context.Background(), f.shoot("y"))).To(Succeed())
		f.reconcile()
		Expect(condition(f).Message).To(ContainSubstring("1 shoot:"))
		Expect(f.table("seed-a")).To(HaveLen(1))
		Expect(f.told()).To(BeEmpty())

		By("somebody else has spoiled them")
		configMap.Data["table.json"] = "{}"
		configMap.ResourceVersion = ""
		Expect(f.Update(context.Background(), configMap)).To(Succeed())
		f.changeSeed("seed-a", func(s *gardencorev1beta1.Seed) { s.Status.Conditions = s.Status.Conditions[:3] })
		f.reconcile()
		Expect(condition(f)).To(HaveField("Reason", "ShootsBlocked"))
		Expect(f.table("seed-a")).To(HaveLen(1))
	})

	It("should tell of a cancelled drain until the last of its migrations is over", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x"))
		f.reconcile()
		Expect(f.moving()).To(HaveKey("x"))
		f.changeSeed("seed-a", cancelled)
		f.reconcile()
		Expect(condition(f)).To(HaveField("Reason", "Cancelling"))
		Expect(f.table("seed-a")).To(HaveKeyWithValue("x", HaveField("Destination", "seed-b")))

		f.arrive("x")
		f.reconcile()
		Expect(condition(f)).To(BeNil())
		_, err := f.configMap("seed-a")
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Expect(f.seed("seed-a").Status.Conditions).To(HaveLen(3))
	})

	It("should look again soon when somebody else has written the seed meanwhile", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"))
		f.failure["patch Seed"] = apierrors.NewConflict(gardencorev1beta1.Resource("seeds"), "seed-a",
			errors.New("changed"))
		Expect(f.reconcile()).To(Equal(reconcile.Result{RequeueAfter: time.Second}))
		Expect(visible(f)).To(BeTrue())
		delete(f.failure, "patch Seed")
		f.reconcile()
		Expect(visible(f)).To(BeFalse())
	})

	DescribeTable("should tell which write has failed", func(what, message string) {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"))
		f.failure[what] = errors.New("no quota")
		_, err := f.Reconcile(context.Background(), reconcile.Request{})
		Expect(err).To(MatchError(And(ContainSubstring(message), ContainSubstring("no quota"))))
	},
		Entry("the seed", "patch Seed", "failed to keep the scheduler away from Seed seed-a"),
		Entry("its status", "status Seed", "failed to patch the status of Seed seed-a"),
		Entry("the table", "create *v1.ConfigMap", "failed to create ConfigMap livecpm-drain-seed-a"),
		Entry("reading", "list *v1beta1.SeedList", "failed to list the Seeds"),
	)

	It("should forget a seed that is gone, and a drain that is over", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b", asked()), newSeed("seed-c"), newShoot("x", single))
		f.reconcile()
		Expect(measured()).To(ConsistOf("seed-a", "seed-b"))
		f.changeSeed("seed-b", cancelled)
		f.reconcile()
		Expect(measured()).To(ConsistOf("seed-a"))

		Expect(f.Delete(context.Background(), f.seed("seed-a"))).To(Succeed())
		f.writes = nil
		Expect(f.reconcile()).To(Equal(reconcile.Result{}))
		Expect(f.writes).To(BeEmpty())
		Expect(measured()).To(BeEmpty())
	})
})
