// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// snapshotsFail returns the metric of the shoot; -1 if there is none.
func snapshotsFail() float64 {
	GinkgoHelper()
	families, err := runtimemetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "livecpm_snapshots_fail" && len(family.GetMetric()) > 0 {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

var _ = Describe("Snapshots that fail", func() {
	const stale = "BackupReady of Etcd shoot--demo--live/etcd-main is False"
	var (
		w       *world
		problem string
		look    error
	)

	BeforeEach(func() {
		problem, look = "", nil
		w = newWorld()
		w.snapshots = map[steps.Role]func(context.Context) (string, error){
			steps.Source:      func(context.Context) (string, error) { return problem, look },
			steps.Destination: func(context.Context) (string, error) { return "", nil },
		}
	})

	It("should be told in a hold of days before a step of the other seed", func() {
		w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationPauseBefore] = string(second) })
		w.goTo(second)
		w.mustPass(seedB)
		Expect(w.condition(second).Reason).To(Equal(string(steps.ReasonPaused)))
		Expect(w.condition(second).Message).NotTo(ContainSubstring("snapshots"))
		w.events()

		problem = stale
		w.clock.Step(24 * time.Hour)
		w.mustPass(seedA)
		Expect(snapshotsFail()).To(Equal(1.0))
		Expect(w.events()).To(ConsistOf(ContainSubstring("SnapshotsFail Snapshots in the source fail: " + stale)))
		w.mustPass(seedB)
		Expect(w.condition(second)).To(And(HaveField("Status", isUnknown),
			HaveField("Reason", string(steps.ReasonPaused)),
			HaveField("Message", HaveSuffix("; snapshots in the source fail: "+stale))))

		writes := len(w.statusWrites)
		w.clock.Step(time.Minute)
		w.mustPass(seedA)
		Expect(w.statusWrites).To(HaveLen(writes), "what is known is not written again")
		Expect(w.events()).To(BeEmpty())

		problem = ""
		w.mustPass(seedA)
		w.mustPass(seedB)
		Expect(w.condition(second).Message).NotTo(ContainSubstring("snapshots"))
		w.mustPass(seedA)
		Expect(snapshotsFail()).To(BeZero())
	})

	It("should be told while a step waits for something else, and stop nothing", func() {
		w.goTo(third)
		problem = stale
		w.actions["source step MigrateExtensionsNeededBeforeKubeAPIServer"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(time.Second, steps.ReasonMigratingExtensions, "waiting"), nil
		}
		w.mustPass(seedA)
		Expect(w.condition(third).Reason).To(Equal(string(steps.ReasonMigratingExtensions)))
		Expect(w.condition(third).Message).To(Equal("waiting; snapshots in the source fail: " + stale))

		delete(w.actions, "source step MigrateExtensionsNeededBeforeKubeAPIServer")
		w.mustPass(seedA)
		Expect(w.condition(third).Status).To(Equal(isTrue))
		Expect(w.condition(third).Message).NotTo(ContainSubstring("snapshots"), "the step is over")
	})

	It("should be told as unknown when nobody can find out, with a text that does not change", func() {
		w.goTo(third)
		look = errBoom
		w.actions["source step MigrateExtensionsNeededBeforeKubeAPIServer"] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(time.Second, steps.ReasonMigratingExtensions, "waiting"), nil
		}
		w.mustPass(seedA)
		Expect(w.condition(third).Message).To(And(ContainSubstring("it cannot be found out"),
			Not(ContainSubstring(errBoom.Error()))))
		Expect(snapshotsFail()).To(Equal(1.0))
	})

	It("should leave nothing on the Shoot when the migration is over", func() {
		w.goTo(third)
		problem = stale
		for range 12 {
			w.mustPass(seedA)
			w.mustPass(seedB)
		}
		Expect(w.statuses()).To(Equal("TTTTTTTT"))
		Expect(annotationsOf(w.shoot())).
			To(Equal(map[string]string{"other": "kept", "gardener.cloud/operation": "reconcile"}))
		Expect(snapshotsFail()).To(Equal(-1.0))
	})
})
