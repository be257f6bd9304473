// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dryrun_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/agent/dryrun"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// registration registers kinds and types, which are pairs.
func registration(name string, kindsAndTypes ...string) *gardencorev1beta1.ControllerRegistration {
	out := &gardencorev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := 0; i < len(kindsAndTypes); i += 2 {
		out.Spec.Resources = append(out.Spec.Resources,
			gardencorev1beta1.ControllerResource{Kind: kindsAndTypes[i], Type: kindsAndTypes[i+1]})
	}
	return out
}

// installation installs the registration in the seed. Its conditions are those of one in order.
func installation(name, registration, seed string) *gardencorev1beta1.ControllerInstallation {
	out := &gardencorev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: gardencorev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: registration}, SeedRef: &corev1.ObjectReference{Name: seed}}}
	for conditionType, status := range map[gardencorev1beta1.ConditionType]gardencorev1beta1.ConditionStatus{
		gardencorev1beta1.ControllerInstallationInstalled:   gardencorev1beta1.ConditionTrue,
		gardencorev1beta1.ControllerInstallationHealthy:     gardencorev1beta1.ConditionTrue,
		gardencorev1beta1.ControllerInstallationProgressing: gardencorev1beta1.ConditionFalse,
	} {
		out.Status.Conditions = append(out.Status.Conditions, gardencorev1beta1.Condition{Type: conditionType,
			Status: status, Reason: "Fine"})
	}
	return out
}

// failing lets a condition of the installation be what it must not be.
func failing(
	installation *gardencorev1beta1.ControllerInstallation, conditionType gardencorev1beta1.ConditionType,
	status gardencorev1beta1.ConditionStatus,
) *gardencorev1beta1.ControllerInstallation {
	for i := range installation.Status.Conditions {
		if condition := &installation.Status.Conditions[i]; condition.Type == conditionType {
			condition.Status, condition.Reason, condition.Message = status, "Pods", "of the very last minute"
		}
	}
	return installation
}

var _ = Describe("Extensions", func() {
	var (
		ctx     = context.Background()
		clock   *testclock.FakeClock
		objects []client.Object
	)
	fact := func(current string) string {
		GinkgoHelper()
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).
			WithIndex(&gardencorev1beta1.ControllerInstallation{}, core.SeedRefName, func(o client.Object) []string {
				return []string{o.(*gardencorev1beta1.ControllerInstallation).Spec.SeedRef.Name}
			}).Build()
		extensions, err := dryrun.NewExtensions(dryrun.ExtensionsOptions{Garden: garden, SeedName: "seed-b",
			Clock: clock})
		Expect(err).NotTo(HaveOccurred())
		value, err := extensions.Fact(ctx, current)
		Expect(err).NotTo(HaveOccurred())
		return value
	}
	parse := func(value string) (out seedfacts.Extensions) {
		GinkgoHelper()
		Expect(json.Unmarshal([]byte(value), &out)).To(Succeed())
		return out
	}

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
		objects = []client.Object{
			registration("local", "ControlPlane", "local", "DNSRecord", "local"),
			installation("local-b", "local", "seed-b"),
		}
	})

	It("should not be set up without what they need", func() {
		_, err := dryrun.NewExtensions(dryrun.ExtensionsOptions{SeedName: "seed-b", Clock: clock})
		Expect(err).To(MatchError(ContainSubstring("Garden")))
	})

	It("should be those of the installations of the seed that are in order", func() {
		objects = append(objects, registration("cert", "Extension", "cert"), installation("cert-a", "cert", "seed-a"))
		seen := parse(fact(""))
		Expect(seen.Ready).To(Equal([]string{"ControlPlane/local", "DNSRecord/local"}))
		Expect(seen.NotReady).To(BeEmpty())
		Expect(seen.LookedAt.Time).To(BeTemporally("==", clock.Now()))
	})

	DescribeTable("should say what is wrong with others",
		func(change func(*gardencorev1beta1.ControllerInstallation), problem string) {
			broken := installation("cert-b", "cert", "seed-b")
			change(broken)
			objects = append(objects, registration("cert", "Extension", "cert"), broken)
			seen := parse(fact(""))
			Expect(seen.Ready).To(HaveLen(2))
			Expect(seen.NotReady).
				To(Equal(map[string]string{"Extension/cert": "ControllerInstallation cert-b" + problem}))
		},
		Entry("one whose pods are not healthy", func(i *gardencorev1beta1.ControllerInstallation) {
			failing(i, gardencorev1beta1.ControllerInstallationHealthy, gardencorev1beta1.ConditionFalse)
		}, ": Healthy is False, Pods"),
		Entry("one that is being rolled out", func(i *gardencorev1beta1.ControllerInstallation) {
			failing(i, gardencorev1beta1.ControllerInstallationProgressing, gardencorev1beta1.ConditionTrue)
		}, ": Progressing is True, Pods"),
		Entry("one of which nothing is known yet", func(i *gardencorev1beta1.ControllerInstallation) {
			i.Status.Conditions = nil
		}, ": Healthy is missing; Installed is missing; Progressing is missing"),
		Entry("one that is on its way out", func(i *gardencorev1beta1.ControllerInstallation) {
			i.DeletionTimestamp, i.Finalizers = new(metav1.NewTime(clock.Now())), []string{"core.gardener.cloud/x"}
		}, " is being deleted"),
	)

	It("should be content with one of two installations", func() {
		objects = append(objects, registration("other", "DNSRecord", "local"),
			failing(installation("other-b", "other", "seed-b"), gardencorev1beta1.ControllerInstallationInstalled,
				gardencorev1beta1.ConditionFalse))
		Expect(parse(fact("")).NotReady).To(BeEmpty())
	})

	It("should not write the Seed each minute, but when something changes, and when it is time to", func() {
		first := fact("")
		clock.Step(9 * time.Minute)
		Expect(fact(first)).To(Equal(first))
		clock.Step(time.Minute)
		second := fact(first)
		Expect(parse(second).LookedAt.Time).To(BeTemporally("==", clock.Now()))
		clock.Step(time.Minute)
		objects = objects[:1]
		third := parse(fact(second))
		Expect(third.Ready).To(BeEmpty())
		Expect(third.LookedAt.Time).To(BeTemporally("==", clock.Now()))
		Expect(parse(fact("{")).LookedAt.Time).To(BeTemporally("==", clock.Now()))
	})

	It("should not be known if a registration cannot be read", func() {
		objects = objects[1:]
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).
			WithIndex(&gardencorev1beta1.ControllerInstallation{}, core.SeedRefName,
				func(client.Object) []string { return []string{"seed-b"} }).Build()
		extensions, err := dryrun.NewExtensions(dryrun.ExtensionsOptions{Garden: garden, SeedName: "seed-b",
			Clock: clock})
		Expect(err).NotTo(HaveOccurred())
		_, err = extensions.Fact(ctx, "")
		Expect(err).To(MatchError(ContainSubstring("failed to read ControllerRegistration local")))
	})
})
