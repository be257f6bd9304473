// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/test/drain"
	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("Fleet", func() {
	var (
		cfg   *config.Config
		shoot = func(name, spec, status string) gardencorev1beta1.Shoot {
			return gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: name},
				Spec:       gardencorev1beta1.ShootSpec{SeedName: &spec},
				Status:     gardencorev1beta1.ShootStatus{SeedName: &status},
			}
		}
		all = func(seed string) []gardencorev1beta1.Shoot {
			var out []gardencorev1beta1.Shoot
			for _, name := range []string{"live", "drain-one", "drain-two", "drain-asleep", "drain-single"} {
				out = append(out, shoot(name, seed, seed))
			}
			return out
		}
		fleet = func(own gardencorev1beta1.Shoot) (*drain.Fleet, error) {
			return drain.NewFleet(cfg, &own, func(string, ...any) {})
		}
	)

	BeforeEach(func() {
		var err error
		cfg, err = config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
	})

	It("should drain the seed that the landscape's own shoot is in", func() {
		f, err := fleet(shoot("live", "seed-b", "seed-b"))
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Source).To(Equal("seed-b"))
		Expect(f.Destination).To(Equal("seed-a"))
		Expect(f.Moving).To(Equal([]string{"live", "drain-one", "drain-two"}))
		Expect(f.Check(all("seed-b")...)).To(Succeed())
	})

	It("should ask for a shoot at rest", func() {
		_, err := fleet(shoot("live", "seed-b", "seed-a"))
		Expect(err).To(MatchError(ContainSubstring("garden-demo/live is not at rest")))
	})

	DescribeTable("should refuse to begin with",
		func(message string, change func([]gardencorev1beta1.Shoot) []gardencorev1beta1.Shoot) {
			f, err := fleet(shoot("live", "seed-a", "seed-a"))
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Check(change(all("seed-a"))...)).To(MatchError(ContainSubstring(message)))
		},
		Entry("a shoot that is not there", "there is no shoot drain-single",
			func(s []gardencorev1beta1.Shoot) []gardencorev1beta1.Shoot { return s[:4] }),
		Entry("a shoot in the other seed",
			"drain-one is not at rest in seed seed-a", func(s []gardencorev1beta1.Shoot) []gardencorev1beta1.Shoot {
				return append(s[2:], s[0], shoot("drain-one", "seed-b", "seed-b"))
			}),
		Entry("a shoot on its way",
			"drain-one is not at rest in seed seed-a", func(s []gardencorev1beta1.Shoot) []gardencorev1beta1.Shoot {
				return append(s[2:], s[0], shoot("drain-one", "seed-b", "seed-a"))
			}),
		Entry("somebody else's shoot", "shoot other is in seed seed-a and none of the test's",
			func(s []gardencorev1beta1.Shoot) []gardencorev1beta1.Shoot {
				return append(s, shoot("other", "seed-a", "seed-a"))
			}),
	)

	It("should not mind somebody else's shoot in the other seed", func() {
		f, err := fleet(shoot("live", "seed-a", "seed-a"))
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Check(append(all("seed-a"), shoot("other", "seed-b", "seed-b"))...)).To(Succeed())
	})
})
