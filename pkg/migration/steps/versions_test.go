// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Versions that an operator confirms", func() {
	// at returns a Shoot of which so many steps are finished.
	at := func(finished int, annotations map[string]string) *gardencorev1beta1.Shoot {
		shoot := &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec:       gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{}},
		}
		for key, value := range annotations {
			shoot.Annotations[key] = value
		}
		for i, step := range steps.Table() {
			status := gardencorev1beta1.ConditionUnknown
			if i < finished {
				status = gardencorev1beta1.ConditionTrue
			}
			shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions,
				gardencorev1beta1.Condition{Type: step.Condition, Status: status})
		}
		return shoot
	}
	confirming := func(versions string) map[string]string {
		return map[string]string{steps.AnnotationConfirmVersions: versions}
	}

	It("should begin to count when the source's members have left", func() {
		for finished := range len(steps.Table()) {
			Expect(steps.PastReturn(at(finished, nil))).To(Equal(finished >= 6), "%d steps", finished)
			forced := map[string]string{steps.AnnotationForceShrink: "true"}
			Expect(steps.PastReturn(at(finished, forced))).To(Equal(finished >= 4), "%d steps, forced", finished)
		}
		Expect(steps.PastReturn(at(len(steps.Table()), nil))).To(BeFalse(), "it is over")
	})

	DescribeTable("are checked", func(finished int, confirmed string, versions []string, problem string) {
		err := steps.CheckConfirmed(at(finished, confirming(confirmed)), versions)
		if problem == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(problem)))
	},
		Entry("all named", 6, "v1.150.1,v1.150.0", []string{"v1.150.0", "v1.150.1", "v1.150.0"}, ""),
		Entry("with spaces", 7, " v1.150.1 , v1.150.0,", []string{"v1.150.0", "v1.150.1"}, ""),
		Entry("one not named", 6, "v1.150.0", []string{"v1.150.0", "v1.150.1"}, "does not name v1.150.1"),
		Entry("nothing named", 6, "", []string{"v1.150.0", "v1.150.1"}, "does not name v1.150.0"),
		Entry("a later patch", 6, "v1.150.0,v1.150.1", []string{"v1.150.0", "v1.150.2"}, "does not name v1.150.2"),
		Entry("another minor", 6, "v1.150.0,v1.151.0", []string{"v1.150.0", "v1.151.0"}, "more than the patch"),
		Entry("another major", 6, "v1.150.0,v2.150.0", []string{"v1.150.0", "v2.150.0"}, "more than the patch"),
		Entry("a build", 6, "v1.150.0,v1.150.1-dev", []string{"v1.150.0", "v1.150.1-dev"}, "is not a release"),
		Entry("metadata", 6, "v1.150.0,v1.150.0+x", []string{"v1.150.0", "v1.150.0+x"}, "is not a release"),
		Entry("no version", 6, "v1.150.0,latest", []string{"v1.150.0", "latest"}, "is not a version"),
		Entry("too early", 5, "v1.150.0,v1.150.1", []string{"v1.150.0", "v1.150.1"}, "point of no return"),
	)

	It("should tell a later minor release from a patch", func() {
		for version, newer := range map[string]bool{"v1.150.0": false, "v1.150.9": false, "v1.149.9": false,
			"v1.151.0": true, "v1.151.0-dev": true, "v2.0.0": true, "v0.200.0": false} {
			Expect(steps.NewerMinor(version, "v1.150.0")).To(Equal(newer), version)
		}
		_, err := steps.NewerMinor("latest", "v1.150.0")
		Expect(err).To(MatchError(ContainSubstring(`"latest" is not a version`)))
		_, err = steps.NewerMinor("v1.150.0", "")
		Expect(err).To(HaveOccurred())
	})

	It("should leave it to the action to hold exactly where members of the source leave", func() {
		var names []string
		for _, step := range steps.Table() {
			if step.MovesMembers() {
				names = append(names, step.String())
			}
		}
		Expect(names).To(Equal([]string{"DestinationKubeAPIServerReady", "EtcdMigrationComplete"}))
	})
})
