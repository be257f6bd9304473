// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"errors"
	"fmt"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/controllermanager/controller/shoot/migration"
	gardenletshoot "github.com/gardener/gardener/pkg/gardenlet/controller/shoot/shoot"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/simulation"
)

const (
	constraint = gardencorev1beta1.ShootReadyForMigration
	first      = gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin
	second     = gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
	fourth     = gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady
	sixth      = gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete
	cleanup    = gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup
	last       = gardencorev1beta1.ShootLiveMigrationMigrationCompleted
	isTrue     = gardencorev1beta1.ConditionTrue
)

var _ = Describe("Gate", func() {
	var (
		count int
		shoot *gardencorev1beta1.Shoot

		// setIntent and the like change one thing and return the API server's answer.
		setIntent = func(value string) error {
			patch := client.MergeFrom(shoot.DeepCopy())
			metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, steps.AnnotationIntent, value)
			return garden.Client.Patch(ctx, shoot, patch)
		}
		removeIntent = func() error {
			patch := client.MergeFrom(shoot.DeepCopy())
			delete(shoot.Annotations, steps.AnnotationIntent)
			return garden.Client.Patch(ctx, shoot, patch)
		}
		setAbort = func(value string) error {
			refreshed := &gardencorev1beta1.Shoot{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), refreshed)).To(Succeed())
			patch := client.MergeFrom(refreshed.DeepCopy())
			metav1.SetMetaDataAnnotation(&refreshed.ObjectMeta, steps.AnnotationAbort, value)
			return garden.Client.Patch(ctx, refreshed, patch)
		}
		removeAbort = func() error {
			refreshed := &gardencorev1beta1.Shoot{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), refreshed)).To(Succeed())
			patch := client.MergeFrom(refreshed.DeepCopy())
			delete(refreshed.Annotations, steps.AnnotationAbort)
			return garden.Client.Patch(ctx, refreshed, patch)
		}
		// annotate sets an annotation, or removes it if the value is empty.
		annotate = func(key, value string) error {
			refreshed := &gardencorev1beta1.Shoot{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), refreshed)).To(Succeed())
			patch := client.MergeFrom(refreshed.DeepCopy())
			metav1.SetMetaDataAnnotation(&refreshed.ObjectMeta, key, value)
			if value == "" {
				delete(refreshed.Annotations, key)
			}
			return garden.Client.Patch(ctx, refreshed, patch)
		}
		setStatusSeed = func(seed string) error {
			patch := client.MergeFrom(shoot.DeepCopy())
			shoot.Status.SeedName = new(seed)
			return garden.Client.Status().Patch(ctx, shoot, patch)
		}
		remove = func() error {
			patch := client.MergeFrom(shoot.DeepCopy())
			metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
			Expect(garden.Client.Patch(ctx, shoot, patch)).To(Succeed())
			return garden.Client.Delete(ctx, shoot)
		}
		refresh = func() { Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed()) }

		inFlight = func() {
			Expect(garden.Intend(ctx, shoot)).To(Succeed())
			Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())
		}
		begun = func() {
			inFlight()
			Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
				Type: first, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
			})).To(Succeed())
		}
	)

	// finished lets so many steps be finished.
	finished := func(count int) {
		GinkgoHelper()
		begun()
		for _, step := range steps.Table()[:count] {
			Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
				Type: step.Condition, Status: isTrue, Reason: "Completed",
			})).To(Succeed())
		}
	}

	BeforeEach(func() {
		count++
		shoot = framework.NewShoot(fmt.Sprintf("g%d-%d", GinkgoParallelProcess(), count), source)
		Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
	})

	When("the policies are not installed", func() {
		It("should find the gate open, so that the classic migration would start", func() {
			inFlight()

			err := gate.New(garden.Client, garden.Client).Verify(ctx, shoot)
			var open *gate.OpenError
			Expect(errors.As(err, &open)).To(BeTrue())
			Expect(open.Problem).To(Equal(gate.ProblemNotInForce))

			refresh()
			Expect(shoot.Status.Constraints).To(BeEmpty(), "the proof must leave nothing behind")

			_, err = (&migration.Reconciler{Client: garden.Client}).Reconcile(ctx,
				reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)})
			Expect(err).NotTo(HaveOccurred())
			refresh()
			Expect(shoot.Status.Constraints).
				To(ContainElement(And(HaveField("Type", constraint), HaveField("Status", isTrue))))
		})
	})

	When("the policies are installed", Ordered, func() {
		BeforeAll(func() {
			Expect(garden.InstallPolicies(ctx)).To(Succeed())
			DeferCleanup(func() { Expect(garden.RemovePolicies(ctx)).To(Succeed()) })
		})

		Context("the classic migration", func() {
			It("should never start: the constraint cannot become True by gardener-controller-manager's own controller",
				func() {
					inFlight()
					_, err := (&migration.Reconciler{Client: garden.Client}).Reconcile(ctx,
						reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)})
					Expect(err).To(beDenied("the constraint ReadyForMigration must not be True"))

					refresh()
					Expect(shoot.Status.Constraints).To(BeEmpty())
				})

			It("should never start: the gardenlet's own controller in the source keeps waiting and writes "+
				"nothing", func() {
				inFlight()
				refresh()
				before := shoot.ResourceVersion
				reconciler := &gardenletshoot.Reconciler{
					GardenClient: garden.Client,
					Config: gardenletconfigv1alpha1.GardenletConfiguration{
						SeedConfig: &gardenletconfigv1alpha1.SeedConfig{
							SeedTemplate: gardencorev1beta1.SeedTemplate{ObjectMeta: metav1.ObjectMeta{Name: source}},
						}},
					Clock: testclock.NewFakeClock(time.Now()),
				}
				_, err := reconciler.Reconcile(ctx,
					reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)})
				Expect(err).
					To(MatchError(ContainSubstring("waiting for confirmation that destination Seed is available")))
				refresh()
				Expect(shoot.ResourceVersion).To(Equal(before))
			})

			It("should not be started by an update of the whole status", func() {
				begun()
				shoot.Status.Constraints = []gardencorev1beta1.Condition{{Type: constraint, Status: isTrue}}
				Expect(garden.Client.Status().Update(ctx, shoot)).To(beDenied("the constraint ReadyForMigration"))
			})

			It("should let the constraint say that the shoot is not ready", func() {
				begun()
				Expect(garden.SetConstraint(ctx, shoot, constraint, gardencorev1beta1.ConditionFalse)).To(Succeed())
			})

			It("should be proved to be held up, without a trace", func() {
				begun()
				refresh()
				before := shoot.ResourceVersion
				Expect(gate.New(garden.Client, garden.Client).Verify(ctx, shoot)).To(Succeed())
				refresh()
				Expect(shoot.ResourceVersion).To(Equal(before))
			})

			It("should keep a live migration from being triggered while the constraint is left over", func() {
				Expect(garden.Intend(ctx, shoot)).To(Succeed())
				Expect(garden.SetConstraint(ctx, shoot, constraint, isTrue)).To(Succeed())
				Expect(garden.Bind(ctx, shoot, destination)).To(beDenied("the constraint ReadyForMigration"))
			})
		})

		Context("a control plane with one etcd member", func() {
			BeforeEach(func() {
				shoot = framework.NewShoot(fmt.Sprintf("s%d-%d", GinkgoParallelProcess(), count), source)
				shoot.Spec.ControlPlane = nil
				Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
			})

			// withGap asks for a migration with the annotation for it.
			withGap := func() {
				GinkgoHelper()
				Expect(annotate(steps.AnnotationWithGap, "true")).To(Succeed())
				refresh()
				Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())
			}
			begunWithGap := func() {
				GinkgoHelper()
				withGap()
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(Succeed())
			}

			It("should not be bound with the annotation for highly available ones: Gardener refuses that", func() {
				Expect(garden.Intend(ctx, shoot)).To(Succeed())
				Expect(garden.Bind(ctx, shoot, destination)).
					To(MatchError(ContainSubstring("must be configured for high availability")))
			})

			It("should be kept from the classic migration with the annotation of its own, and proved to be", func() {
				withGap()
				refresh()
				Expect(gate.New(garden.Client, garden.Client).Verify(ctx, shoot)).To(Succeed())
				Expect(garden.SetConstraint(ctx, shoot, constraint, isTrue)).
					To(beDenied("the constraint ReadyForMigration must not be True"))
			})

			It("should be free again when the annotation goes before the migration has begun", func() {
				withGap()
				Expect(annotate(steps.AnnotationWithGap, "")).To(Succeed())
				refresh()
				Expect(garden.SetConstraint(ctx, shoot, constraint, isTrue)).To(Succeed())
			})

			DescribeTable("should not change once the migration has begun", func(change func() error, denial string) {
				begunWithGap()
				Expect(change()).To(beDenied(denial))
			},
				Entry("the annotation removed",
					func() error { return annotate(steps.AnnotationWithGap, "") }, "must not change once"),
				Entry("the annotation set to false",
					func() error { return annotate(steps.AnnotationWithGap, "false") }, "must not change once"),
				Entry("the other annotation set",
					func() error { return annotate(steps.AnnotationIntent, "true") }, "must not change once"),
				Entry("deleted", func() error { refresh(); return remove() }, "must not be deleted"),
			)

			It("should not become highly available once the migration has begun: Gardener refuses that first", func() {
				begunWithGap()
				refresh()
				patch := client.MergeFrom(shoot.DeepCopy())
				shoot.Spec.ControlPlane = framework.NewShoot("another", source).Spec.ControlPlane
				Expect(garden.Client.Patch(ctx, shoot, patch)).
					To(MatchError(ContainSubstring("rescheduled to a new seed")))
			})

			It("should not get the annotation while a classic migration is in flight", func() {
				Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())
				Expect(annotate(steps.AnnotationWithGap, "true")).
					To(beDenied("cannot be set while a classic migration is in flight"))
			})
		})

		Context("the intent annotation", func() {
			It("should be removable and changeable before the migration has begun", func() {
				inFlight()
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionUnknown, Reason: "PrerequisitesNotMet",
				})).To(Succeed())
				Expect(setIntent("1")).To(Succeed())
				Expect(removeIntent()).To(Succeed())
			})

			It("should keep the migration from beginning once it is removed", func() {
				inFlight()
				Expect(removeIntent()).To(Succeed())
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(beDenied("must not change without the annotation"))
			})

			It("should be removable when the conditions are those of an earlier migration", func() {
				for _, step := range steps.Table() {
					Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
						Type: step.Condition, Status: isTrue, Reason: "Completed",
					})).To(Succeed())
				}
				inFlight()
				Expect(removeIntent()).To(Succeed())
			})

			DescribeTable("should not be removed or changed once the migration has begun",
				func(write func() error) {
					begun()
					Expect(write()).
						To(beDenied("the annotation migration.gardener.cloud/live-migrate must not change once"))
					refresh()
					Expect(steps.Requested(shoot)).To(BeTrue())
				},
				Entry("removed", func() error { return removeIntent() }),
				Entry("set to false", func() error { return setIntent("false") }),
				Entry("set to another true value", func() error { return setIntent("1") }),
				Entry("through shoots/status", func() error {
					patch := client.MergeFrom(shoot.DeepCopy())
					delete(shoot.Annotations, steps.AnnotationIntent)
					return garden.Client.Status().Patch(ctx, shoot, patch)
				}),
				Entry("through shoots/binding", func() error {
					patch := client.MergeFrom(shoot.DeepCopy())
					delete(shoot.Annotations, steps.AnnotationIntent)
					shoot.Spec.SeedName = new("seed-c")
					return garden.Client.SubResource("binding").Patch(ctx, shoot, patch)
				}),
				Entry("together with the constraint", func() error {
					patch := client.MergeFrom(shoot.DeepCopy())
					delete(shoot.Annotations, steps.AnnotationIntent)
					shoot.Status.Constraints = []gardencorev1beta1.Condition{{Type: constraint, Status: isTrue}}
					return garden.Client.Status().Patch(ctx, shoot, patch)
				}),
			)

			It("should be removable after a completed abort, which hands the shoot back to the classic "+
				"migration", func() {
				begun()
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionFalse, Reason: gate.ReasonAborted,
				})).To(Succeed())
				Expect(garden.SetConstraint(ctx, shoot, constraint, isTrue)).
					To(beDenied("the constraint ReadyForMigration"))
				refresh()
				Expect(removeIntent()).To(Succeed())
				Expect(garden.SetConstraint(ctx, shoot, constraint, isTrue)).To(Succeed())
			})

			It("should not be set while a classic migration is in flight", func() {
				Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())
				Expect(setIntent("true")).To(beDenied("cannot be set while a classic migration is in flight"))
			})
		})

		Context("the seed names", func() {
			DescribeTable("should not let spec.seedName change once the migration has begun",
				func(seed string) {
					begun()
					Expect(garden.Bind(ctx, shoot, seed)).To(beDenied("spec.seedName must not change once"))
				},
				Entry("back to the source", source),
				Entry("to a third seed", "seed-c"),
			)

			It("should let spec.seedName go back before the migration has begun", func() {
				inFlight()
				Expect(garden.Bind(ctx, shoot, source)).To(Succeed())
				Expect(removeIntent()).To(Succeed())
			})

			It("should let spec.seedName go back after a completed abort", func() {
				begun()
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionFalse, Reason: gate.ReasonAborted,
				})).To(Succeed())
				Expect(garden.Bind(ctx, shoot, source)).To(Succeed())
			})

			It("should let an abort be asked for until the members have joined", func() {
				begun()
				Expect(setAbort("true")).To(Succeed())
			})

			It("should let an abort be asked for and taken back before the migration has begun", func() {
				inFlight()
				Expect(setAbort("true")).To(Succeed())
				Expect(removeAbort()).To(Succeed())
			})

			It("should let an abort be asked for until the step with the point of no return begins", func() {
				finished(5)
				Expect(setAbort("true")).To(Succeed())
			})

			It("should refuse an abort once DNS moves, and say what to do", func() {
				finished(5)
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: sixth, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(Succeed())
				Expect(setAbort("true")).To(
					And(beDenied("cannot be aborted any more"), MatchError(ContainSubstring("docs/operations"))))
				Expect(setAbort("false")).To(Succeed(), "it asks for nothing")
			})

			It("should refuse an abort once etcd moves first, and keep the annotation that says so", func() {
				finished(3)
				Expect(annotate(steps.AnnotationForceShrink, "true")).To(Succeed())
				Expect(annotate(steps.AnnotationForceShrink, "")).To(Succeed(), "nothing has moved")
				Expect(annotate(steps.AnnotationForceShrink, "true")).To(Succeed())
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: fourth, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(Succeed())
				Expect(setAbort("true")).To(beDenied("cannot be aborted any more"))
				Expect(annotate(steps.AnnotationForceShrink, "")).To(beDenied("must not be set while an abort"))
			})

			It("should not let etcd move first while an abort is in flight", func() {
				finished(3)
				Expect(setAbort("true")).To(Succeed())
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: second, Status: gardencorev1beta1.ConditionFalse, Reason: string(steps.ReasonAborting),
				})).To(Succeed())
				Expect(annotate(steps.AnnotationForceShrink, "true")).To(beDenied("must not be set while an abort"))
			})

			It("should let a destination be abandoned by its name only, with an abort, and to its end", func() {
				finished(3)
				Expect(annotate(steps.AnnotationAbandon, destination)).To(beDenied("must have the name"))
				Expect(setAbort("true")).To(Succeed())
				Expect(annotate(steps.AnnotationAbandon, source)).To(beDenied("must have the name"))
				Expect(annotate(steps.AnnotationAbandon, "true")).To(beDenied("must have the name"))
				Expect(annotate(steps.AnnotationAbandon, destination)).To(Succeed())
				Expect(annotate(steps.AnnotationAbandon, "")).To(beDenied("stays until the abort is completed"))
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionFalse, Reason: gate.ReasonAborted,
				})).To(Succeed())
				Expect(annotate(steps.AnnotationAbandon, "")).To(Succeed())
			})

			It("should refuse to abandon a destination when the way back is lost", func() {
				finished(5)
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: sixth, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(Succeed())
				Expect(annotate(steps.AnnotationAbandon, destination)).To(beDenied("must have the name"))
			})

			It("should let a source be abandoned by its name only, and only while it has a part left", func() {
				finished(5)
				Expect(annotate(steps.AnnotationAbandonSource, source)).To(beDenied("docs/operations/recovery.md"))
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: sixth, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(Succeed())
				Expect(annotate(steps.AnnotationAbandonSource, destination)).To(beDenied("name of the source seed"))
				Expect(annotate(steps.AnnotationAbandonSource, "true")).To(beDenied("name of the source seed"))
				Expect(annotate(steps.AnnotationAbandonSource, source)).To(Succeed())
				Expect(annotate(steps.AnnotationAbandonSource, "")).To(Succeed(), "the source may come back")
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: sixth, Status: isTrue, Reason: "Completed",
				})).To(Succeed())
				Expect(annotate(steps.AnnotationAbandonSource, source)).To(Succeed())
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type:   gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup,
					Status: isTrue, Reason: string(steps.ReasonSourceAbandoned),
				})).To(Succeed())
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type:   gardencorev1beta1.ShootLiveMigrationMigrationCompleted,
					Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(Succeed())
				Expect(annotate("other", "changed")).To(Succeed(), "what is there already holds nothing")
				Expect(annotate(steps.AnnotationAbandonSource, "")).To(Succeed())
				Expect(annotate(steps.AnnotationAbandonSource, source)).To(beDenied("nothing is asked of the source"))
			})

			It("should not let the classic migration restore beside what an abandonment has left behind", func() {
				begun()
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionFalse, Reason: gate.ReasonAborted,
				})).To(Succeed())
				Expect(annotate(steps.AnnotationLeftBehind, destination)).To(Succeed())
				Expect(annotate(steps.AnnotationIntent, "")).To(beDenied("must not be removed while the annotation"))
				Expect(annotate(steps.AnnotationLeftBehind, "")).To(Succeed())
				Expect(annotate(steps.AnnotationIntent, "")).To(Succeed())
			})

			It("should not let an abort be taken back while it is in flight", func() {
				begun()
				Expect(setAbort("true")).To(Succeed())
				Expect(removeAbort()).To(beDenied("must not be removed while the abort is in flight"))
				Expect(setAbort("false")).To(beDenied("must not be removed while the abort is in flight"))
			})

			It("should let an abort be asked for again after a completed one", func() {
				begun()
				Expect(setAbort("true")).To(Succeed())
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: gardencorev1beta1.ConditionFalse, Reason: gate.ReasonAborted,
				})).To(Succeed())
				Expect(removeAbort()).To(Succeed())
			})

			It("should let a left-over request for an abort that is too late be removed", func() {
				Expect(setAbort("true")).To(Succeed())
				finished(5)
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: sixth, Status: gardencorev1beta1.ConditionProgressing, Reason: "Started",
				})).To(Succeed())
				Expect(removeAbort()).To(Succeed())
			})

			It("should not let status.seedName change before the source is cleaned up", func() {
				begun()
				Expect(setStatusSeed(destination)).To(beDenied("status.seedName may only become spec.seedName"))
				refresh()
				Expect(setStatusSeed("seed-c")).To(beDenied("status.seedName may only become spec.seedName"))
			})

			It("should let status.seedName become nothing but spec.seedName afterwards", func() {
				begun()
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: cleanup, Status: isTrue, Reason: "Completed",
				})).To(Succeed())
				Expect(setStatusSeed("seed-c")).To(beDenied("status.seedName may only become spec.seedName"))
				refresh()
				patch := client.MergeFrom(shoot.DeepCopy())
				shoot.Status.SeedName = nil
				Expect(garden.Client.Status().Patch(ctx, shoot, patch)).
					To(beDenied("status.seedName may only become spec.seedName"))
			})

			It("should let the hand-over pass: status.seedName, the last condition, lastOperation and the annotation "+
				"in one write", func() {
				begun()
				for _, step := range steps.Table() {
					if step.Condition != last {
						Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
							Type: step.Condition, Status: isTrue, Reason: "Completed",
						})).To(Succeed())
					}
				}
				patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
				delete(shoot.Annotations, steps.AnnotationIntent)
				simulation.Arrive(shoot, time.Now())
				shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions,
					gardencorev1beta1.Condition{
						Type: last, Status: isTrue, Reason: "Completed", LastTransitionTime: metav1.Now(),
						LastUpdateTime: metav1.Now(),
					})
				Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())

				refresh()
				Expect(shoot.Status.SeedName).To(HaveValue(Equal(destination)))
				Expect(shoot.Annotations).NotTo(HaveKey(steps.AnnotationIntent))
				Expect(remove()).To(Succeed(), "after the hand-over nothing is denied any more")
			})
		})

		Context("deletion", func() {
			It("should be denied in flight", func() {
				inFlight()
				Expect(remove()).To(beDenied("the Shoot must not be deleted while"))
			})

			It("should be denied in flight also for a whole collection", func() {
				begun()
				patch := client.MergeFrom(shoot.DeepCopy())
				metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
				Expect(garden.Client.Patch(ctx, shoot, patch)).To(Succeed())
				err := garden.Client.DeleteAllOf(ctx, &gardencorev1beta1.Shoot{}, client.InNamespace(shoot.Namespace),
					client.MatchingFields{"metadata.name": shoot.Name})
				Expect(err).To(HaveOccurred())
				refresh()
				Expect(shoot.DeletionTimestamp).To(BeNil())
			})
		})

		Context("outside of live migrations", func() {
			It("should deny nothing of a classic migration", func() {
				Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())
				_, err := (&migration.Reconciler{Client: garden.Client}).Reconcile(ctx,
					reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)})
				Expect(err).NotTo(HaveOccurred())
				refresh()
				Expect(shoot.Status.Constraints).
					To(ContainElement(And(HaveField("Type", constraint), HaveField("Status", isTrue))))

				patch := client.MergeFrom(shoot.DeepCopy())
				shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
					Type:  gardencorev1beta1.LastOperationTypeMigrate,
					State: gardencorev1beta1.LastOperationStateSucceeded, Progress: 100, LastUpdateTime: metav1.Now(),
				}
				shoot.Status.SeedName = shoot.Spec.SeedName
				Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())
			})

			It("should deny nothing of a classic migration with the annotation set to false", func() {
				Expect(setIntent("false")).To(Succeed())
				Expect(garden.Bind(ctx, shoot, destination)).To(Succeed())
				Expect(garden.SetConstraint(ctx, shoot, constraint, isTrue)).To(Succeed())
				Expect(removeIntent()).To(Succeed())
				Expect(remove()).To(Succeed())
			})

			It("should deny nothing while the seed names are equal, with or without the annotation", func() {
				Expect(garden.Intend(ctx, shoot)).To(Succeed())
				Expect(garden.SetConstraint(ctx, shoot, constraint, isTrue)).To(Succeed())
				Expect(garden.SetConstraint(ctx, shoot, constraint, gardencorev1beta1.ConditionFalse)).To(Succeed())
				Expect(garden.SetCondition(ctx, shoot, gardencorev1beta1.Condition{
					Type: first, Status: isTrue, Reason: "Completed",
				})).To(Succeed())
				Expect(removeIntent()).To(Succeed())
				Expect(setIntent("true")).To(Succeed())
				Expect(remove()).To(Succeed())
			})

			It("should deny nothing on a shoot without seed, status and annotations", func() {
				bare := framework.NewShoot(fmt.Sprintf("b%d-%d", GinkgoParallelProcess(), count), source)
				bare.Spec.SeedName = nil
				Expect(garden.Client.Create(ctx, bare)).To(Succeed())
				Expect(garden.SetConstraint(ctx, bare, constraint, isTrue)).To(Succeed())
				Expect(garden.Bind(ctx, bare, source)).To(Succeed())
				shoot = bare
				Expect(remove()).To(Succeed())
			})
		})
	})
})

func beDenied(rule string) gomegatypes.GomegaMatcher {
	return And(
		WithTransform(apierrors.IsForbidden, BeTrue()),
		MatchError(And(
			ContainSubstring("ValidatingAdmissionPolicy '%s' with binding '%s' denied request", gate.PolicyName,
				gate.PolicyName),
			ContainSubstring("livecpm gate:"),
			ContainSubstring(rule),
		)),
	)
}
