// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Abandonment", func() {
	const fourth = gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady
	var (
		w *world

		annotate = func(values map[string]string) {
			w.change(func(s *gardencorev1beta1.Shoot) {
				for key, value := range values {
					s.Annotations[key] = value
				}
			})
		}
		abandon = func() {
			annotate(map[string]string{steps.AnnotationAbort: "true", steps.AnnotationAbandon: seedB})
		}
		source = func(times int) {
			GinkgoHelper()
			for range times {
				w.clock.Step(time.Second)
				w.mustPass(seedA)
			}
		}
	)

	BeforeEach(func() {
		w = newWorld()
		w.actions["destination step "+string(fourth)] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonDeployingKubeAPIServer, "0 of 3"), nil
		}
		w.goTo(fourth)
		w.mustPass(seedB)
		w.ran = nil
		w.events()
	})

	It("should let the source end the abort for which it would wait without end", func() {
		annotate(map[string]string{steps.AnnotationAbort: "true"})
		source(5)
		Expect(w.ran).To(BeEmpty(), "the destination is lost and does not withdraw")

		annotate(map[string]string{steps.AnnotationAbandon: seedB})
		w.actions["source abandon"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Done("left: the namespace"), nil
		}
		source(1)
		Expect(w.condition(second)).To(And(HaveField("Reason", "Abandoned"),
			HaveField("Message", "left: the namespace"), HaveField("Status", isFalse)))
		Expect(w.shoot().Annotations).To(HaveKeyWithValue(steps.AnnotationLeftBehind, seedB))
		Expect(w.events()).To(ContainElement(ContainSubstring("Warning DestinationAbandoned left: the namespace")))
		source(2)
		Expect(w.ran).To(Equal([]string{"source abandon SourceEtcdPreparedForPeerJoin",
			"source abort SourceEtcdPreparedForPeerJoin"}))
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
		Expect(w.condition(first).Message).NotTo(ContainSubstring("Both seeds"), "one of them is not as before")
		Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateAborted))
		Expect(w.shoot().Status.SeedName).To(HaveValue(Equal(seedA)))
	})

	It("should not be carried out for another seed", func() {
		annotate(map[string]string{steps.AnnotationAbort: "true", steps.AnnotationAbandon: "true"})
		source(3)
		Expect(w.ran).To(BeEmpty())
	})

	It("should say what keeps the source from it, and what fails", func() {
		abandon()
		w.actions["source abandon"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Waiting(2*time.Second, steps.ReasonQuorumAtRisk, "2 of 5"), nil
		}
		Expect(w.mustPass(seedA).RequeueAfter).To(Equal(2 * time.Second))
		Expect(w.condition(first)).To(And(HaveField("Reason", "Aborting"), HaveField("Message", "2 of 5")))
		Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateError))
		w.actions["source abandon"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Outcome{}, errBoom
		}
		_, err := w.pass(seedA)
		Expect(err).To(MatchError(errBoom))
		Expect(w.condition(first).Message).To(Equal("failed to move the world"))
		Expect(w.condition(second).Status).To(Equal(isTrue))
		delete(w.actions, "source abandon")
		source(3)
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
	})

	It("should keep a destination that comes back in the middle from the etcds", func() {
		abandon()
		w.mustPass(seedB)
		Expect(w.ran).To(BeEmpty())
		Expect(w.condition(second).Status).To(Equal(isTrue))
	})

	It("should end the destination's own withdrawal", func() {
		annotate(map[string]string{steps.AnnotationAbort: "true"})
		r := w.agent(seedB)
		r.Clock = clock.RealClock{}
		r.Config.SyncPeriod = &metav1.Duration{Duration: 5 * time.Millisecond}
		w.actions["destination abort"] = func(ctx context.Context, _ *migration.Migration) (steps.Outcome, error) {
			abandon()
			<-ctx.Done()
			return steps.Outcome{}, ctx.Err()
		}
		_, _ = w.passOf(r)
		Expect(w.condition(second).Reason).To(Equal("Aborting"))
		delete(w.actions, "destination abort")
		w.ran = nil
		w.mustPass(seedB)
		Expect(w.ran).To(BeEmpty())
		source(3)
		Expect(w.condition(first).Reason).To(Equal("Aborted"))
	})

	Describe("when the destination comes back afterwards", func() {
		const cleared = "destination clear DestinationEtcdPeersJoined"

		BeforeEach(func() {
			abandon()
			source(3)
			Expect(w.condition(first).Reason).To(Equal("Aborted"))
			w.ran = nil
			w.events()
		})

		It("should let it remove what is left, and nothing else", func() {
			operation := w.shoot().Status.LastOperation
			w.actions["destination clear"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
				return steps.Outcome{}, errBoom
			}
			_, err := w.pass(seedB)
			Expect(err).To(MatchError(errBoom))
			Expect(w.events()).To(ContainElement(ContainSubstring("failed to move the world")))
			Expect(w.condition(second).Reason).To(Equal("Abandoned"))

			delete(w.actions, "destination clear")
			w.mustPass(seedB)
			Expect(w.condition(second).Reason).To(Equal("Withdrawn"))
			Expect(w.condition(first).Reason).To(Equal("Aborted"))
			Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationLeftBehind))
			Expect(w.shoot().Status.LastOperation).To(Equal(operation))
			Expect(w.ran).To(Equal([]string{cleared, cleared}))
			w.mustPass(seedB)
			source(2)
			Expect(w.ran).To(HaveLen(2))
		})

		It("should not begin a migration into that seed before it has", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationAbort) })
			source(3)
			Expect(w.ran).To(BeEmpty())
			Expect(w.events()).To(ContainElement(ContainSubstring("Warning LeftBehind The migration does not begin")))

			delete(w.actions, "destination step "+string(fourth))
			for range 12 {
				w.clock.Step(time.Second)
				w.mustPass(seedA)
				w.mustPass(seedB)
			}
			Expect(w.ran[0]).To(Equal(cleared))
			Expect(w.statuses()).To(Equal("TTTTTTTT"))
			Expect(annotationsOf(w.shoot())).To(And(HaveKeyWithValue("other", "kept"),
				Not(HaveKey(steps.AnnotationAbandon)), Not(HaveKey(steps.AnnotationLeftBehind))))
		})

		It("should not turn an abort of the next migration into an abandonment", func() {
			w.change(func(s *gardencorev1beta1.Shoot) {
				delete(s.Annotations, steps.AnnotationAbort)
				delete(s.Annotations, steps.AnnotationLeftBehind)
			})
			source(1)
			Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationAbandon))
		})

		It("should let the shoot stay, and remember what is left", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Spec.SeedName = ptr.To(seedA) })
			source(1)
			Expect(annotationsOf(w.shoot())).To(Equal(map[string]string{"other": "kept",
				steps.AnnotationLeftBehind: seedB}))
		})
	})
})

var _ = Describe("An overdue step", func() {
	const aborted = "Warning AbortedOverdue Aborting, as configured"
	var (
		w    *world
		stay = func(step gardencorev1beta1.ConditionType) {
			w.actions["destination step "+string(step)] = func(
				context.Context, *migration.Migration,
			) (steps.Outcome, error) {
				return steps.Waiting(0, steps.ReasonPreparingDestination, "at work"), nil
			}
			w.goTo(step)
			w.mustPass(seedB)
			w.events()
		}
		pass = func(seed string, configured bool) {
			GinkgoHelper()
			r := w.agent(seed)
			r.Config.AbortOverdue = &configured
			_, err := w.passOf(r)
			Expect(err).NotTo(HaveOccurred())
		}
	)

	BeforeEach(func() { w = newWorld() })

	DescribeTable("should be aborted by either agent, if it is configured to, once", func(one, other string) {
		stay(second)
		pass(one, true)
		Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationAbort), "it is in time")
		w.clock.Step(21 * time.Minute)
		pass(one, false)
		Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationAbort), "it is not asked for")
		w.events()
		pass(one, true)
		Expect(w.shoot().Annotations).To(HaveKeyWithValue(steps.AnnotationAbort, "true"))
		Expect(w.events()).To(ContainElement(ContainSubstring(aborted)))
		pass(other, true)
		pass(one, true)
		Expect(w.events()).NotTo(ContainElement(ContainSubstring(aborted)))
	},
		Entry("by its owner", seedB, seedA),
		Entry("by the other one, for the owner may be lost", seedA, seedB),
	)

	It("should be left to operators when extensions may have moved", func() {
		stay(gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady)
		w.clock.Step(time.Hour)
		pass(seedB, true)
		pass(seedA, true)
		Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationAbort))
	})

	It("should be given the time that an operator asks for", func() {
		stay(second)
		w.clock.Step(time.Hour)
		w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations["gardener.cloud/operation"] = "retry" })
		pass(seedB, true)
		pass(seedA, true)
		Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationAbort))
	})
})
