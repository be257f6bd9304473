// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Abandonment of the source", func() {
	const (
		seventh   = gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup
		last      = gardencorev1beta1.ShootLiveMigrationMigrationCompleted
		abandoned = "destination abandon source SourceSeedCleanup"
	)
	var (
		w   *world
		ctx = context.Background()

		ask = func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationAbandonSource] = seedA })
		}
		// gardenlet lets the condition of the source's Seed say whether its gardenlet answers.
		gardenlet = func(status gardencorev1beta1.ConditionStatus) {
			GinkgoHelper()
			seed := &gardencorev1beta1.Seed{}
			Expect(w.client.Get(ctx, client.ObjectKey{Name: seedA}, seed)).To(Succeed())
			seed.Status.Conditions = []gardencorev1beta1.Condition{{Type: gardencorev1beta1.GardenletReady,
				Status: status}}
			Expect(w.client.Status().Update(ctx, seed)).To(Succeed())
		}
		// alive is what the destination's action is told of the source.
		alive = func() string {
			GinkgoHelper()
			var told string
			w.actions["destination abandon source"] = func(
				ctx context.Context, m *migration.Migration,
			) (steps.Outcome, error) {
				var err error
				told, err = m.PeerAlive(ctx)
				return steps.Waiting(time.Second, steps.ReasonAbandoningSource, "looking"), err
			}
			w.mustPass(seedB)
			return told
		}
	)

	BeforeEach(func() {
		w = newWorld()
		w.goTo(seventh)
		w.actions["source step "+string(seventh)] = func(
			context.Context, *migration.Migration,
		) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonStoppingSourceControlPlane, "stopping"), nil
		}
	})

	It("should not be carried out unasked, nor for another seed", func() {
		for range 3 {
			w.mustPass(seedB)
		}
		w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationAbandonSource] = seedB })
		w.mustPass(seedB)
		Expect(w.ran).NotTo(ContainElement(abandoned))
	})

	It("should let the destination finish the migration for which it would wait without end", func() {
		w.mustPass(seedA)
		w.ran = nil
		ask()
		w.actions["destination abandon source"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Done("left: the namespace"), nil
		}
		w.mustPass(seedB)
		Expect(w.condition(seventh)).To(And(HaveField("Status", isTrue), HaveField("Reason", "SourceAbandoned"),
			HaveField("Message", "left: the namespace")))
		Expect(w.shoot().Annotations).To(HaveKeyWithValue(steps.AnnotationLeftBehind, seedA))
		Expect(w.events()).To(ContainElement(ContainSubstring("Warning SourceAbandoned")))
		w.mustPass(seedB)
		Expect(w.ran).To(Equal([]string{abandoned, "destination step MigrationCompleted"}))
		Expect(w.statuses()).To(Equal("TTTTTTTT"))
		Expect(w.shoot().Status.SeedName).To(HaveValue(Equal(seedB)))
		Expect(annotationsOf(w.shoot())).To(And(Not(HaveKey(steps.AnnotationAbandonSource)),
			HaveKeyWithValue(steps.AnnotationLeftBehind, seedA)), "what is left outlives the migration")
	})

	It("should say that the gate keeps the destination from it, as long as that is asked for", func() {
		ask()
		w.gateErr = errors.New("the policy is not in force")
		w.mustPass(seedB)
		Expect(w.ran).NotTo(ContainElement(abandoned))
		Expect(w.condition(last)).To(And(HaveField("Reason", "AbandoningSource"),
			HaveField("Message", "GateNotInForce: the policy is not in force")))

		w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationAbandonSource) })
		w.mustPass(seedB)
		Expect(w.condition(last).Reason).To(Equal("Pending"))
	})

	It("should say what keeps the destination from it, in a condition of its own", func() {
		w.mustPass(seedA)
		before := w.condition(seventh)
		ask()
		w.actions["destination abandon source"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Waiting(2*time.Second, steps.ReasonAbandoningSource, "its gardenlet answers"), nil
		}
		w.events()
		Expect(w.mustPass(seedB).RequeueAfter).To(Equal(2 * time.Second))
		Expect(w.condition(last)).To(And(HaveField("Reason", "AbandoningSource"),
			HaveField("Message", "its gardenlet answers"), HaveField("Status", BeEquivalentTo("Unknown"))))
		Expect(w.condition(seventh)).To(Equal(before))
		Expect(w.events()).To(ConsistOf(ContainSubstring("AbandoningSource its gardenlet answers")))
		w.mustPass(seedB)
		Expect(w.events()).To(BeEmpty(), "it is said once")

		w.actions["destination abandon source"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Outcome{}, errBoom
		}
		_, err := w.pass(seedB)
		Expect(err).To(MatchError(errBoom))
		Expect(w.condition(last).Message).To(Equal("ActionFailed: failed to move the world"))
		Expect(w.condition(seventh)).To(Equal(before))
	})

	It("should say nothing of it any more when it was taken back", func() {
		pending := w.condition(last)
		ask()
		w.actions["destination abandon source"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonAbandoningSource, "its gardenlet answers"), nil
		}
		w.mustPass(seedB)
		w.mustPass(seedA)
		Expect(w.condition(last).Reason).To(Equal("AbandoningSource"))
		w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationAbandonSource) })
		w.mustPass(seedB)
		Expect(w.condition(last)).To(And(HaveField("Reason", pending.Reason), HaveField("Message", pending.Message),
			HaveField("Status", pending.Status)))
	})

	It("should let a source that is there after all finish its step", func() {
		ask()
		w.actions["destination abandon source"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Waiting(0, steps.ReasonAbandoningSource, "its agent was last seen now"), nil
		}
		w.mustPass(seedB)
		delete(w.actions, "source step "+string(seventh))
		w.mustPass(seedA)
		Expect(w.condition(seventh).Reason).To(Equal("Completed"))
		w.mustPass(seedB)
		Expect(w.statuses()).To(Equal("TTTTTTTT"))
		Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationLeftBehind))
	})

	It("should not be carried out without a gate", func() {
		ask()
		w.gateErr = errBoom
		w.mustPass(seedB)
		Expect(w.ran).NotTo(ContainElement(abandoned))
	})

	It("should make a source that comes back leave the shoot alone", func() {
		ask()
		w.mustPass(seedB)
		Expect(w.condition(seventh).Reason).To(Equal("SourceAbandoned"))
		w.ran = nil
		for range 3 {
			w.mustPass(seedA)
		}
		Expect(w.ran).To(BeEmpty())
		Expect(w.condition(seventh).Reason).To(Equal("SourceAbandoned"))
	})

	It("should interrupt a destination that waits for members of the source, and when it is taken back", func() {
		const sixth = gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete
		w = newWorld()
		w.goTo(sixth)
		r := w.agent(seedB)
		r.Clock = clock.RealClock{}
		r.Config.SyncPeriod = &metav1.Duration{Duration: 5 * time.Millisecond}
		var asked []bool
		w.actions["destination step "+string(sixth)] = func(
			ctx context.Context, m *migration.Migration,
		) (steps.Outcome, error) {
			asked = append(asked, steps.AbandonSourceRequested(m.Shoot))
			switch len(asked) {
			case 1:
				ask()
			case 2:
				w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationAbandonSource) })
			default:
				return steps.Done("the source has removed them"), nil
			}
			<-ctx.Done()
			return steps.Outcome{}, ctx.Err()
		}
		for range 3 {
			_, _ = w.passOf(r)
		}
		Expect(asked).To(Equal([]bool{false, true, false}))
		Expect(w.condition(sixth).Status).To(Equal(isTrue))
	})

	Describe("a source that counts as lost", func() {
		BeforeEach(func() {
			w.mustPass(seedA)
			ask()
		})

		It("should be one of which neither agent nor gardenlet has shown life for minutes", func() {
			gardenlet("Unknown")
			w.clock.Step(4 * time.Minute)
			Expect(alive()).To(ContainSubstring("was last seen at"))
			w.clock.Step(time.Minute)
			Expect(alive()).To(BeEmpty())
		})

		DescribeTable("should not be one", func(prepare func(), why string) {
			prepare()
			w.clock.Step(10 * time.Minute)
			Expect(alive()).To(ContainSubstring(why))
		},
			Entry("whose gardenlet answers", func() { gardenlet("True") }, "deploy its agent again"),
			Entry("of whose gardenlet nothing is known", func() {}, "has no condition GardenletReady"),
		)

		It("should be one whose Seed was deleted", func() {
			Expect(w.client.Delete(ctx, seed(seedA, version))).To(Succeed())
			w.clock.Step(10 * time.Minute)
			Expect(alive()).To(BeEmpty())
		})

		It("should not be one that waits, and writes nothing for it", func() {
			gardenlet("Unknown")
			for range 10 {
				w.clock.Step(time.Minute)
				w.mustPass(seedA)
			}
			Expect(alive()).To(ContainSubstring("was last seen at"))
		})

		It("should not be one whose step is paused before it begins", func() {
			w = newWorld()
			w.goTo(seventh)
			w.change(func(s *gardencorev1beta1.Shoot) {
				s.Annotations[steps.AnnotationPauseBefore] = string(seventh)
			})
			ask()
			gardenlet("Unknown")
			for range 10 {
				w.clock.Step(time.Minute)
				w.mustPass(seedA)
			}
			Expect(w.condition(seventh).Reason).To(Equal("Paused"))
			Expect(alive()).To(ContainSubstring("was last seen at"))
		})
	})
})
