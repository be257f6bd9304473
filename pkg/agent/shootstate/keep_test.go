// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shootstate_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/shootstate"
)

var _ = Describe("Keeping a ShootState", func() {
	var (
		ctx      = context.Background()
		w        *world
		repaired int
		// repair takes the state of the source again.
		repair func(context.Context) error
	)

	BeforeEach(func() {
		w = newWorld()
		w.extension("audit", `{"generation":1}`, gardencorev1beta1.LastOperationTypeReconcile)
		Expect(w.states.Replace(ctx, w.shoot)).To(Succeed())
		w.patches, repaired = 0, 0
		repair = func(ctx context.Context) error {
			repaired++
			return w.states.Replace(ctx, w.shoot)
		}
	})

	It("should keep the date ahead in a hold of a week, with a write an hour at most", func() {
		const week = 7 * 24
		for range week * 4 {
			w.clock.Step(15 * time.Minute)
			Expect(w.states.Keep(ctx, w.shoot, nil)).To(Succeed())
			Expect(shootstate.Check(w.read(), w.clock.Now().Add(lead-time.Hour-time.Second))).To(Succeed())
		}
		Expect(w.patches).To(BeNumerically("<=", week))
		Expect(w.patches).To(BeNumerically(">", 0))
	})

	It("should let the source take again at once what a gardenlet in the other seed has replaced", func() {
		w.replaceBy(newWorld())
		Expect(w.states.Keep(ctx, w.shoot, repair)).To(Succeed())
		Expect(repaired).To(Equal(1))
		Expect(w.states.Compare(ctx, w.shoot)).To(Succeed())
		Expect(shootstate.Check(w.read(), w.clock.Now().Add(lead-time.Hour))).To(Succeed())
	})

	It("should say that it was replaced where nobody can take it again, and date it nevertheless", func() {
		w.replaceBy(newWorld())
		Expect(shootstate.IsDifference(w.states.Keep(ctx, w.shoot, nil))).To(BeTrue())
		Expect(shootstate.Check(w.read(), w.clock.Now().Add(lead-time.Hour))).To(Succeed())
	})

	DescribeTable("should take it again", func(spoil func(*gardencorev1beta1.ShootState)) {
		w.clock.Step(2 * time.Hour)
		w.change(spoil)
		Expect(w.states.Keep(ctx, w.shoot, repair)).To(Succeed())
		Expect(repaired).To(Equal(1))
	},
		Entry("without secrets", func(state *gardencorev1beta1.ShootState) { state.Spec.Gardener = nil }),
		Entry("without a state", func(state *gardencorev1beta1.ShootState) { state.Spec.Extensions = nil }),
		Entry("without a date", func(state *gardencorev1beta1.ShootState) {
			state.Annotations = nil
		}),
	)

	It("should record what an agent of an older version has taken, without waiting for the date", func() {
		w.change(func(state *gardencorev1beta1.ShootState) { delete(state.Annotations, shootstate.AnnotationTaken) })
		Expect(w.states.Keep(ctx, w.shoot, repair)).To(Succeed())
		Expect(w.states.Compare(ctx, w.shoot)).To(Succeed())
	})

	It("should write one that somebody has deleted, where that is possible", func() {
		Expect(w.garden.Delete(ctx, w.read())).To(Succeed())
		Expect(w.states.Keep(ctx, w.shoot, nil)).
			To(MatchError(ContainSubstring("failed to read when ShootState garden-demo/live was dated")))
		Expect(w.states.Keep(ctx, w.shoot, repair)).To(Succeed())
		Expect(w.states.Compare(ctx, w.shoot)).To(Succeed())
	})
})
