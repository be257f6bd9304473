// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package summary_test

import (
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("#DrainOf", func() {
	var (
		seed      *gardencorev1beta1.Seed
		table     = &drain.Table{Seed: "seed-a"}
		condition = gardencorev1beta1.Condition{Type: drain.ConditionDrained, Status: gardencorev1beta1.ConditionTrue,
			Reason: "Empty"}
	)

	BeforeEach(func() {
		seed = &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a",
			Annotations: map[string]string{drain.AnnotationDrain: "true"}}}
		seed.Status.Conditions = []gardencorev1beta1.Condition{{Type: "GardenletReady"}, condition}
	})

	It("should tell what Seed and table say", func() {
		Expect(summary.DrainOf(seed, table, nil)).
			To(Equal(summary.Drain{Seed: "seed-a", Requested: true, Condition: &condition, Table: table}))
	})

	It("should tell of a Seed that nobody drains", func() {
		seed.Annotations, seed.Status.Conditions = nil, nil
		Expect(summary.DrainOf(seed, nil, nil)).To(Equal(summary.Drain{Seed: "seed-a"}))
	})

	It("should tell why the table is not known", func() {
		Expect(summary.DrainOf(seed, nil, errors.New("not permitted"))).
			To(Equal(summary.Drain{Seed: "seed-a", Requested: true, Condition: &condition, Unknown: "not permitted"}))
	})
})
