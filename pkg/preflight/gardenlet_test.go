// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/features"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

func gardenletRolledOut(context.Context) (preflight.RolloutView, error) {
	return preflight.RolloutView{Name: "garden/gardenlet", Version: "v1.150.0"}, nil
}

func noMachines(context.Context, *gardencorev1beta1.Shoot) (preflight.MachinesView, error) {
	return preflight.MachinesView{}, nil
}

func endsTLS(context.Context, *gardencorev1beta1.Shoot) (bool, error) { return true, nil }

var _ = Describe("A gardenlet that migrates by itself", func() {
	const (
		conditionsOnly = `{"f:status":{"f:liveMigration":{".":{},"f:conditions":{}}}}`
		otherStatus    = `{"f:status":{"f:lastOperation":{}}}`
	)
	wrote := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	rival := func(w preflight.Facts) string {
		GinkgoHelper()
		checker, err := preflight.New(preflight.Options{
			Reader: fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
				WithObjects(w.Source.Seed, w.Destination.Seed).Build(),
			OwnSeed: w.OwnSeed, Gardenlet: w.Gardenlet, Version: w.Version, Protocols: w.Protocols,
			Etcds: func(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
				return nil, nil
			},
			Running: rolledOut, Rollout: gardenletRolledOut, Extensions: noExtensions,
			Machines: noMachines, TLSEndsAtGateway: endsTLS,
			Clock: testclock.NewFakePassiveClock(w.Now),
		})
		Expect(err).NotTo(HaveOccurred())
		return checker.Rival(context.Background(), w.Shoot)
	}
	take := func(w *preflight.Facts, status gardencorev1beta1.ConditionStatus) {
		all := conditions.Initialize(testclock.NewFakePassiveClock(w.Now), nil)
		all[0].Status = status
		w.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: all}
	}
	versions := func(w *preflight.Facts, source, destination string) {
		w.Source.Seed.Status.Gardener.Version = source
		w.Destination.Seed.Status.Gardener.Version = destination
	}

	DescribeTable("is known by what it shows", func(sign string, change func(*preflight.Facts)) {
		world := fit()
		change(&world)
		if sign == "" {
			Expect(rival(world)).To(BeEmpty())
			return
		}
		Expect(rival(world)).To(ContainSubstring(sign))
	},
		Entry("nothing", "", func(*preflight.Facts) {}),
		Entry("its feature gate",
			"LiveControlPlaneMigration is on in the configuration of the gardenlet of seed seed-a",
			func(w *preflight.Facts) {
				w.Gardenlet.FeatureGates = map[string]bool{"LiveControlPlaneMigration": true}
			}),
		Entry("its feature gate, off", "", func(w *preflight.Facts) {
			w.Gardenlet.FeatureGates = map[string]bool{"LiveControlPlaneMigration": false}
		}),
		Entry("a later minor release in both seeds", "v1.151.0 and v1.152.3, of a later minor release than v1.150.0",
			func(w *preflight.Facts) { versions(w, "v1.151.0", "v1.152.3") }),
		Entry("a later minor release in one seed", "", func(w *preflight.Facts) {
			versions(w, "v1.150.0",
				"v1.151.0")
		}),
		Entry("another patch release", "", func(w *preflight.Facts) { versions(w, "v1.150.1", "v1.150.1") }),
		Entry("no version", "", func(w *preflight.Facts) { versions(w, "", "") }),
		Entry("conditions that a gardenlet has written", `"gardenlet" has written the conditions`,
			func(w *preflight.Facts) {
				take(w, gardencorev1beta1.ConditionUnknown)
				w.Shoot.ManagedFields = []metav1.ManagedFieldsEntry{wrote("gardenlet", conditionsOnly)}
			}),
		Entry("a first step that a gardenlet has begun", `"gardenlet" has written the conditions`,
			func(w *preflight.Facts) {
				take(w, gardencorev1beta1.ConditionProgressing)
				w.Shoot.ManagedFields = []metav1.ManagedFieldsEntry{wrote("gardenlet", conditionsOnly)}
			}),
		Entry("conditions that an agent has written", "", func(w *preflight.Facts) {
			take(w, gardencorev1beta1.ConditionUnknown)
			w.Shoot.ManagedFields = []metav1.ManagedFieldsEntry{wrote("livecpm-agent", conditionsOnly),
				wrote("gardenlet", otherStatus)}
		}),
		Entry("conditions that both have written", "", func(w *preflight.Facts) {
			take(w, gardencorev1beta1.ConditionUnknown)
			w.Shoot.ManagedFields = []metav1.ManagedFieldsEntry{wrote("gardenlet", conditionsOnly),
				wrote("livecpm-agent", conditionsOnly)}
		}),
		Entry("later releases when an agent has begun", "", func(w *preflight.Facts) {
			take(w, gardencorev1beta1.ConditionProgressing)
			w.Shoot.ManagedFields = []metav1.ManagedFieldsEntry{wrote("livecpm-agent", conditionsOnly)}
			versions(w, "v1.151.0", "v1.151.0")
		}),
		Entry("conditions of an earlier migration", "", func(w *preflight.Facts) {
			w.Shoot.ManagedFields = []metav1.ManagedFieldsEntry{wrote("gardenlet", conditionsOnly)}
		}),
		Entry("fields that cannot be read", "", func(w *preflight.Facts) {
			take(w, gardencorev1beta1.ConditionUnknown)
			w.Shoot.ManagedFields = []metav1.ManagedFieldsEntry{wrote("gardenlet", "{"), {Manager: "gardenlet"}}
		}),
	)

	It("should not be in the release of Gardener that the agent is built with", func() {
		// When this fails, the gardenlet knows the gate: look what it does before you build an agent with that release.
		Expect(gardenletfeatures.GetFeatures()).NotTo(ContainElement(features.LiveControlPlaneMigration))
		Expect(steps.AgentFieldManager).To(Equal("livecpm-agent"))
	})
})
