// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	product "github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/test/drain"
	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("Mix", func() {
	var (
		now = time.Date(2026, 11, 29, 0, 3, 0, 0, time.UTC)
		own = func(workers ...gardencorev1beta1.Worker) *gardencorev1beta1.Shoot {
			seed := "seed-b"
			return &gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "workers"},
				Spec: gardencorev1beta1.ShootSpec{SeedName: &seed,
					Provider: gardencorev1beta1.Provider{Workers: workers}},
				Status: gardencorev1beta1.ShootStatus{SeedName: &seed},
			}
		}
		mix = func(own *gardencorev1beta1.Shoot) (*drain.Mix, error) {
			GinkgoHelper()
			cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
				State: GinkgoT().TempDir(), Cache: "/cache"})
			Expect(err).NotTo(HaveOccurred())
			return drain.NewMix(cfg, own, now, func(string, ...any) {})
		}
	)

	It("should have eight shoots of all kinds, in the seed of the landscape's own", func() {
		m, err := mix(own(gardencorev1beta1.Worker{Name: "one"}))
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Source).To(Equal("seed-b"))
		Expect(m.Destination).To(Equal("seed-a"))
		Expect(m.Ways).To(HaveLen(8))
		count := map[product.Way]int{}
		for _, way := range m.Ways {
			count[way]++
		}
		Expect(count).To(Equal(map[product.Way]int{product.Live: 2, product.LiveWithGap: 2, product.Classic: 1,
			product.ClassicWhileHibernated: 3}))
		Expect(m.Awake()).To(Equal([]string{"mix-gap-one", "mix-gap-two", "mix-live", "mix-single", "workers"}))
	})

	It("should make each so that it can leave in its way", func() {
		m, err := mix(own(gardencorev1beta1.Worker{Name: "one"}))
		Expect(err).NotTo(HaveOccurred())
		for _, made := range m.Made() {
			way := m.Ways[made.Name]
			Expect(made.Seed).To(Equal("seed-b"))
			Expect(len("demo"+made.Name)).To(BeNumerically("<=", 21), "Gardener takes no longer names")
			Expect(made.Hibernated).To(Equal(way == product.ClassicWhileHibernated), made.Name)
			Expect(made.WithGap).To(Equal(way == product.LiveWithGap), made.Name)
			waits := way == product.LiveWithGap || way == product.Classic
			Expect(made.MaintenanceFrom.IsZero()).To(Equal(!waits), made.Name)
			if waits {
				Expect(made.Single).To(BeTrue(), made.Name)
				Expect(made.MaintenanceFrom).To(BeTemporally("<", now))
			}
		}
	})

	It("should refuse a landscape without workers", func() {
		_, err := mix(own())
		Expect(err).To(MatchError("shoot workers has no workers: set LIVECPM_SHOOT to workers"))
	})
})
