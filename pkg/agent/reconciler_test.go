// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
)

const (
	first  = gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin
	second = gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
	third  = gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer
	sixth  = gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete
	last   = gardencorev1beta1.ShootLiveMigrationMigrationCompleted

	isTrue        = gardencorev1beta1.ConditionTrue
	isFalse       = gardencorev1beta1.ConditionFalse
	isUnknown     = gardencorev1beta1.ConditionUnknown
	isProgressing = gardencorev1beta1.ConditionProgressing
)

// overdue returns how many shoots are late by the metric.
func overdue() (sum float64) {
	GinkgoHelper()
	families, err := runtimemetrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "livecpm_step_overdue" {
			for _, metric := range family.GetMetric() {
				sum += metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

var _ = Describe("Reconciler", func() {
	var (
		ctx = logf.IntoContext(context.Background(), logr.Discard())
		w   *world
	)

	BeforeEach(func() {
		w = newWorld()
	})

	waiting := func(reason steps.Reason) migration.ActionFunc {
		return func(context.Context, *migration.Migration) (steps.Outcome, error) {
			return steps.Waiting(3*time.Second, reason, "waiting"), nil
		}
	}
	failing := func(context.Context, *migration.Migration) (steps.Outcome, error) { return steps.Outcome{}, errBoom }

	Describe("whose turn it is", func() {
		It("should carry a shoot from one seed to the other, each step done once, by its owner", func() {
			for range 12 {
				w.clock.Step(time.Minute)
				w.mustPass(seedA)
				w.mustPass(seedB)
			}

			Expect(w.ran).To(Equal([]string{
				"source step SourceEtcdPreparedForPeerJoin",
				"destination step DestinationEtcdPeersJoined",
				"source step MigrateExtensionsNeededBeforeKubeAPIServer",
				"destination step DestinationKubeAPIServerReady",
				"source step MigrateDNSRecords",
				"destination step EtcdMigrationComplete",
				"source step SourceSeedCleanup",
				"destination step MigrationCompleted",
			}))
			Expect(w.statuses()).To(Equal("TTTTTTTT"))
			shoot := w.shoot()
			Expect(shoot.Status.SeedName).To(HaveValue(Equal(seedB)))
			Expect(shoot.Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeRestore))
			Expect(shoot.Status.Conditions).To(HaveLen(1), "the conditions of others are untouched")
			Expect(annotationsOf(shoot)).
				To(Equal(map[string]string{"other": "kept", "gardener.cloud/operation": "reconcile"}))
		})

		It("should never have both agents act, in whatever order they look", func() {
			for i := range 40 {
				before := len(w.ran)
				seedName := []string{seedA, seedB}[(i*7/3)%2]
				owner, _ := steps.Current(steps.Conditions(w.shoot()))
				w.mustPass(seedName)
				for _, words := range w.ran[before:] {
					Expect(words).To(HavePrefix(string(owner.Owner) + " step"))
					Expect(words).To(HaveSuffix(owner.String()))
				}
			}
			Expect(w.statuses()).To(Equal("TTTTTTTT"))
		})

		It("should let only the source begin", func() {
			result := w.mustPass(seedB)
			Expect(result.RequeueAfter).To(BeNumerically(">", 0))
			Expect(w.shoot().Status.LiveMigration).To(BeNil())
			Expect(w.ran).To(BeEmpty())

			w.actions["source step SourceEtcdPreparedForPeerJoin"] = waiting(steps.ReasonWaitingForSourceEtcd)
			w.mustPass(seedA)
			Expect(w.statuses()).To(Equal("PUUUUUUU"))
			w.mustPass(seedB)
			Expect(w.ran).To(Equal([]string{"source step SourceEtcdPreparedForPeerJoin"}))
		})

		It("should not touch shoots that ask for nothing, nor those of other seeds", func() {
			for _, mutate := range []func(*gardencorev1beta1.Shoot){
				func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationIntent) },
				func(s *gardencorev1beta1.Shoot) { s.Spec.SeedName = ptr.To(seedA) },
				func(s *gardencorev1beta1.Shoot) { s.Status.SeedName = nil },
				func(s *gardencorev1beta1.Shoot) {
					s.Status.SeedName = ptr.To("seed-c")
					s.Spec.SeedName = ptr.To("seed-d")
				},
			} {
				w = newWorld()
				w.change(mutate)
				before := w.shoot()
				Expect(w.mustPass(seedA)).To(BeZero())
				Expect(w.mustPass(seedB)).To(BeZero())
				Expect(w.shoot()).To(Equal(before))
				Expect(w.ran).To(BeEmpty())
			}
		})

		It("should not mind a shoot that is gone", func() {
			Expect(w.client.Delete(ctx, w.shoot())).To(Succeed())
			Expect(w.mustPass(seedA)).To(BeZero())
		})

		It("should take nothing over from the deadline of a previous migration", func() {
			w.change(func(s *gardencorev1beta1.Shoot) {
				s.Annotations[steps.AnnotationOverdue] = "2026-01-01T00:00:00Z"
				s.Annotations[steps.AnnotationDeadline] = "5h"
			})
			w.actions["source step SourceEtcdPreparedForPeerJoin"] = waiting(steps.ReasonWaitingForSourceEtcd)
			w.mustPass(seedA)
			deadline, running, err := steps.DeadlineOf(w.shoot(), time.Hour)
			Expect(err).NotTo(HaveOccurred())
			Expect(running).To(BeTrue())
			Expect(deadline.At()).To(BeTemporally("~", w.clock.Now().Add(5*time.Hour), time.Second))
			Expect(steps.DeadlinePassed(w.shoot())).To(BeFalse())
		})

		It("should replace the conditions of the previous migration", func() {
			for range 10 {
				w.mustPass(seedA)
				w.mustPass(seedB)
			}
			w.ran = nil
			w.change(func(s *gardencorev1beta1.Shoot) {
				s.Annotations[steps.AnnotationIntent] = "true"
				s.Spec.SeedName = ptr.To(seedA)
			})

			w.mustPass(seedA)
			Expect(w.statuses()).To(Equal("TTTTTTTT"), "seed-a is the destination now")
			w.actions["source step SourceEtcdPreparedForPeerJoin"] = waiting(steps.ReasonWaitingForSourceEtcd)
			w.mustPass(seedB)
			Expect(w.statuses()).To(Equal("PUUUUUUU"))
			Expect(w.ran).To(Equal([]string{"source step SourceEtcdPreparedForPeerJoin"}))
		})
	})

	Describe("resuming", func() {
		It("should continue after a restart from what the Shoot says", func() {
			attempts := 0
			w.actions["destination step DestinationEtcdPeersJoined"] = func(
				context.Context, *migration.Migration,
			) (steps.Outcome, error) {
				if attempts++; attempts < 3 {
					return steps.Waiting(0, steps.ReasonJoiningEtcdMembers, "4 of 5"), nil
				}
				return steps.Done("5 of 5"), nil
			}
			w.goTo(second)
			w.mustPass(seedB)
			started := w.condition(second).LastTransitionTime
			w.clock.Step(time.Minute)

			// Every pass of this suite is one of a new instance.
			w.mustPass(seedB)
			Expect(w.condition(second).LastTransitionTime).To(Equal(started),
				"the start of the step survives the restart")
			Expect(w.condition(second).Reason).To(Equal("JoiningEtcdMembers"))
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isTrue))
		})

		It("should leave the Shoot alone when it is shut down in the middle of an action", func() {
			w.goTo(second)
			cancelled, cancel := context.WithCancel(ctx)
			w.actions["destination step DestinationEtcdPeersJoined"] = func(
				ctx context.Context, _ *migration.Migration,
			) (steps.Outcome, error) {
				cancel()
				return steps.Outcome{}, ctx.Err()
			}
			_, err := w.agent(seedB).Reconcile(cancelled, reconcile.Request{NamespacedName: key})
			Expect(err).NotTo(HaveOccurred())
			Expect(w.condition(second).Reason).To(Equal("Started"))
		})

		It("should survive being shut down while it reads the Shoot for a write", func() {
			w.goTo(second)
			cancelled, cancel := context.WithCancel(ctx)
			// Somebody else has just written, so it has to read again.
			w.onStatusWrite = func(ctx context.Context, c client.Client) error {
				w.onStatusWrite = nil
				shoot := &gardencorev1beta1.Shoot{}
				Expect(c.Get(ctx, key, shoot)).To(Succeed())
				shoot.Status.Conditions[0].Status = isFalse
				return c.Status().Update(ctx, shoot)
			}
			r := w.agent(seedB)
			r.GardenAPIReader = readerFunc{Reader: w.client, before: func() error {
				if w.gets++; w.gets == 1 {
					return nil
				}
				cancel()
				return cancelled.Err()
			}}
			_, err := r.Reconcile(cancelled, reconcile.Request{NamespacedName: key})
			Expect(err).NotTo(HaveOccurred())
			Expect(w.condition(second).Reason).To(Equal("Pending"), "nothing was written")
		})

		It("should bound one attempt", func() {
			w.goTo(second)
			w.actions["destination step DestinationEtcdPeersJoined"] = func(
				ctx context.Context, _ *migration.Migration,
			) (steps.Outcome, error) {
				<-ctx.Done()
				return steps.Outcome{}, ctx.Err()
			}
			r := w.agent(seedB)
			r.Config.AttemptTimeout = &metav1.Duration{Duration: 20 * time.Millisecond}
			_, err := w.passOf(r)
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(w.condition(second).Reason).To(Equal("ActionFailed"))
		})
	})

	Describe("the gate", func() {
		BeforeEach(func() {
			w.gateErr = errors.New("the policy is not in force")
		})

		It("should start nothing, say why, and leave the last operation alone", func() {
			result := w.mustPass(seedA)
			Expect(result.RequeueAfter).To(Equal(5 * time.Second))
			Expect(w.ran).To(BeEmpty())
			Expect(w.condition(first).Status).To(Equal(isUnknown))
			Expect(w.condition(first).Reason).To(Equal("GateNotInForce"))
			Expect(w.condition(first).Message).To(Equal("the policy is not in force"))
			Expect(w.shoot().Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeReconcile))
			Expect(w.events()).To(ContainElement(ContainSubstring("Warning GateNotInForce")))

			w.gateErr = nil
			w.mustPass(seedA)
			Expect(w.condition(first).Status).To(Equal(isTrue))
		})

		It("should hold in flight, but keep the infrastructure up to date", func() {
			w.gateErr = nil
			w.goTo(second)
			w.gateErr = errors.New("the policy is not in force")
			synced := 0
			for _, role := range []string{"source", "destination"} {
				w.actions[role+" always"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
					synced++
					return steps.Outcome{}, nil
				}
			}

			w.mustPass(seedA)
			Expect(w.condition(second).Reason).To(Equal("Pending"), "the peer does not write it")
			w.mustPass(seedB)
			Expect(w.condition(second).Reason).To(Equal("GateNotInForce"))
			Expect(w.ran).To(BeEmpty())
			Expect(synced).To(Equal(2))
		})
	})

	Describe("prerequisites", func() {
		It("should be checked by each role before its first step, and reported all at once", func() {
			w.findings[steps.Source] = []string{"no HA", "no backup"}
			w.findings[steps.Destination] = []string{"no UpgradeEtcdVersion"}
			w.mustPass(seedA)
			Expect(w.condition(first).Status).To(Equal(isUnknown))
			Expect(w.condition(first).Reason).To(Equal("PrerequisitesNotMet"))
			Expect(w.condition(first).Message).To(Equal("no HA; no backup"))
			Expect(w.shoot().Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeReconcile),
				"it is a prerequisite itself")
			Expect(w.ran).To(BeEmpty())

			delete(w.findings, steps.Source)
			w.mustPass(seedA)
			w.mustPass(seedB)
			Expect(w.condition(second).Reason).To(Equal("PrerequisitesNotMet"))
			Expect(w.condition(second).Message).To(Equal("no UpgradeEtcdVersion"))
			Expect(w.shoot().Status.LastOperation.Type).To(Equal(gardencorev1beta1.LastOperationTypeLiveMigrate))
			Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateError))

			delete(w.findings, steps.Destination)
			w.mustPass(seedB)
			w.findings[steps.Source] = []string{"too late to matter"}
			w.mustPass(seedA)
			Expect(w.condition(third).Status).To(Equal(isTrue))
		})
	})

	Describe("versions", func() {
		setVersion := func(name, version string) {
			GinkgoHelper()
			current := &gardencorev1beta1.Seed{}
			Expect(w.client.Get(ctx, client.ObjectKey{Name: name}, current)).To(Succeed())
			current.Status = seed(name, version).Status
			Expect(w.client.Status().Update(ctx, current)).To(Succeed())
		}

		It("should hold before every step while the gardenlets differ, and continue by itself", func() {
			setVersion(seedB, "v1.150.1")
			w.mustPass(seedA)
			Expect(w.condition(first).Status).To(Equal(isUnknown))
			Expect(w.condition(first).Reason).To(Equal("VersionSkew"))
			Expect(w.condition(first).Message).
				To(ContainSubstring("the gardenlet of seed seed-a is v1.150.0, that of seed seed-b is v1.150.1"))

			setVersion(seedB, version)
			w.goTo(third)
			setVersion(seedB, "v1.151.0")
			w.mustPass(seedA)
			Expect(w.condition(third).Reason).To(Equal("VersionSkew"))
			Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateProcessing))
			Expect(w.ran).To(BeEmpty())

			setVersion(seedB, version)
			w.mustPass(seedA)
			Expect(w.condition(third).Status).To(Equal(isTrue))
		})

		It("should hold a step that has begun at its next attempt, and continue by itself", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = waiting(steps.ReasonJoiningEtcdMembers)
			w.goTo(second)
			w.mustPass(seedB)
			w.ran = nil
			setVersion(seedA, "v1.150.1")
			delete(w.actions, "destination step DestinationEtcdPeersJoined")

			result := w.mustPass(seedB)
			Expect(w.ran).To(BeEmpty())
			Expect(w.condition(second).Status).To(Equal(isProgressing), "the step has begun")
			Expect(w.condition(second).Reason).To(Equal("VersionSkew"))
			Expect(w.condition(second).Message).To(ContainSubstring("seed-a is v1.150.1"))
			Expect(result.RequeueAfter).To(Equal(5 * time.Second))

			setVersion(seedA, version)
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isTrue))
		})

		It("should end an attempt that runs, and hold", func() {
			const words = "destination step DestinationEtcdPeersJoined"
			w.goTo(second)
			running := make(chan struct{})
			w.actions[words] = func(ctx context.Context, _ *migration.Migration) (steps.Outcome, error) {
				close(running)
				<-ctx.Done()
				return steps.Outcome{}, ctx.Err()
			}
			passed := make(chan error)
			go func() {
				defer GinkgoRecover()
				_, err := w.pass(seedB)
				passed <- err
			}()
			Eventually(running, patience.Eventually).Should(BeClosed())
			setVersion(seedA, "v1.151.0")
			Eventually(func(g Gomega) {
				w.clock.Step(time.Minute)
				g.Expect(passed).To(Receive(Not(HaveOccurred())))
			}, patience.Eventually).Should(Succeed())
			Expect(w.condition(second).Reason).To(Equal("Started"), "nothing has failed")

			w.mustPass(seedB)
			Expect(w.condition(second).Message).To(ContainSubstring("that of seed seed-b is v1.150.0"))
		})

		It("should not end an attempt because a version cannot be read", func() {
			const words = "destination step DestinationEtcdPeersJoined"
			w.goTo(second)
			running, end := make(chan struct{}), make(chan struct{})
			w.actions[words] = func(ctx context.Context, _ *migration.Migration) (steps.Outcome, error) {
				close(running)
				select {
				case <-end:
				case <-ctx.Done():
				}
				return steps.Done("done"), ctx.Err()
			}
			looked := make(chan struct{}, 1000)
			w.actions["destination always"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
				looked <- struct{}{}
				return steps.Outcome{}, nil
			}
			passed := make(chan error)
			go func() {
				defer GinkgoRecover()
				_, err := w.pass(seedB)
				passed <- err
			}()
			Eventually(running, patience.Eventually).Should(BeClosed())
			setVersion(seedA, "")
			for len(looked) > 0 {
				<-looked
			}
			// The Always action runs after the look at the versions.
			Eventually(func(g Gomega) {
				w.clock.Step(time.Minute)
				g.Expect(looked).To(Receive())
			}, patience.Eventually).Should(Succeed())
			close(end)
			Eventually(passed, patience.Eventually).Should(Receive(Not(HaveOccurred())))
			Expect(w.condition(second).Status).To(Equal(isTrue))
		})

		It("should leave it to the action where members of the source leave", func() {
			var reasons []steps.Reason
			w.actions["destination step EtcdMigrationComplete"] = func(
				ctx context.Context, m *migration.Migration,
			) (steps.Outcome, error) {
				reason, message := m.Obstacle(ctx)
				reasons = append(reasons, reason)
				return steps.Waiting(0, steps.ReasonJoiningLastEtcdMember, "%s", message), nil
			}
			w.goTo(sixth)
			w.mustPass(seedB)
			setVersion(seedA, "v1.151.0")
			w.mustPass(seedB)
			Expect(reasons).To(Equal([]steps.Reason{"", steps.ReasonVersionSkew}))
			Expect(w.condition(sixth).Reason).To(Equal("JoiningLastEtcdMember"))
		})

		It("should continue beyond the point of no return if an operator has confirmed the versions", func() {
			const seventh = gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup
			confirm := func(versions string) {
				w.change(func(s *gardencorev1beta1.Shoot) {
					s.Annotations[steps.AnnotationConfirmVersions] = versions
				})
			}
			w.goTo(third)
			setVersion(seedB, "v1.150.1")
			confirm("v1.150.0,v1.150.1")
			w.mustPass(seedA)
			Expect(w.condition(third).Reason).To(Equal("VersionSkew"))
			Expect(w.condition(third).Message).
				To(ContainSubstring("before the point of no return a difference cannot be confirmed"))

			setVersion(seedB, version)
			w.goTo(seventh)
			setVersion(seedB, "v1.150.1")
			w.mustPass(seedA)
			Expect(w.condition(seventh).Status).To(Equal(isTrue))
			Expect(w.events()).To(ContainElement(And(ContainSubstring("BegunWithWarnings"),
				ContainSubstring("an operator has confirmed the versions"))))

			setVersion(seedB, "v1.150.2")
			w.mustPass(seedB)
			Expect(w.condition(last).Reason).To(Equal("VersionSkew"))
			Expect(w.condition(last).Message).To(And(
				ContainSubstring("does not name v1.150.2"),
				ContainSubstring("kubectl livecpm confirm-versions live -n garden-demo --versions v1.150.0,v1.150.2")))

			confirm("v1.150.0, v1.150.2")
			w.mustPass(seedB)
			Expect(w.statuses()).To(Equal("TTTTTTTT"))
			Expect(w.shoot().Annotations).NotTo(HaveKey(steps.AnnotationConfirmVersions))
		})

		It("should hold when a version is not known or not the agent's own", func() {
			setVersion(seedB, "")
			w.mustPass(seedA)
			Expect(w.condition(first).Message).
				To(ContainSubstring("the gardenlet of seed seed-b has not reported its version"))

			Expect(w.client.Delete(ctx, seed(seedB, ""))).To(Succeed())
			w.mustPass(seedA)
			Expect(w.condition(first).Message).To(ContainSubstring("seed seed-b could not be read"))

			Expect(w.client.Create(ctx, seed(seedB, version))).To(Succeed())
			setVersion(seedB, version)
			w.version = "v1.150.1"
			w.mustPass(seedA)
			Expect(w.condition(first).Reason).To(Equal("VersionSkew"))
			Expect(w.condition(first).Message).
				To(ContainSubstring(
					"the agent of seed seed-a is built with Gardener v1.150.1, both gardenlets are v1.150.0"))
		})
	})

	Describe("a gardenlet that migrates by itself", func() {
		It("should be left alone: nothing is written, and an event says so", func() {
			for _, name := range []string{seedA, seedB} {
				current := &gardencorev1beta1.Seed{}
				Expect(w.client.Get(ctx, client.ObjectKey{Name: name}, current)).To(Succeed())
				current.Status = seed(name, "v1.151.0").Status
				Expect(w.client.Status().Update(ctx, current)).To(Succeed())
			}
			before := w.shoot()
			for _, name := range []string{seedA, seedB} {
				Expect(w.mustPass(name).RequeueAfter).To(BeNumerically(">", 0))
			}
			Expect(w.shoot()).To(Equal(before))
			Expect(w.ran).To(BeEmpty())
			Expect(w.statusWrites).To(BeEmpty())
			Expect(w.events()).To(ContainElement(And(HavePrefix("Warning GardenletMigratesLive"),
				ContainSubstring("later minor release"), ContainSubstring("reasons/GardenletMigratesLive.md"))))
		})
	})

	Describe("warnings", func() {
		It("should be made known without holding the step", func() {
			w.warnings = []string{"etcd-main is large"}
			w.goTo(second)
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isTrue))
			Expect(w.events()).To(
				ContainElement(ContainSubstring("Warning BegunWithWarnings " +
					"Step DestinationEtcdPeersJoined begins with warnings: etcd-main is large")))
		})
	})

	It("should cut a long event between two characters", func() {
		w.warnings = []string{strings.Repeat("ä", 1000), strings.Repeat("€", 1000)}
		w.goTo(second)
		w.mustPass(seedB)
		Expect(w.events()).To(ContainElement(And(HavePrefix("Warning BegunWithWarnings"),
			Satisfy(utf8.ValidString), WithTransform(func(e string) int { return len(e) }, BeNumerically("<", 1100)))))
	})

	Describe("a pause", func() {
		It("should also hold when it is requested while the agent is about to begin the step", func() {
			w.goTo(second)
			w.onStatusWrite = func(context.Context, client.Client) error {
				w.onStatusWrite = nil
				w.change(func(s *gardencorev1beta1.Shoot) {
					s.Annotations[steps.AnnotationPauseBefore] = string(second)
				})
				return nil
			}
			w.mustPass(seedB)
			Expect(w.ran).To(BeEmpty())
			Expect(w.condition(second).Status).To(Equal(isUnknown), "the request was accepted before the step began")
			w.mustPass(seedB)
			Expect(w.condition(second).Reason).To(Equal("Paused"))
		})

		It("should hold before the named step until the annotation is gone", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationPauseBefore] = string(second) })
			w.goTo(second)
			w.clock.Step(24 * time.Hour)
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isUnknown), "a pause does not count towards the deadline")
			Expect(w.condition(second).Reason).To(Equal("Paused"))
			Expect(w.ran).To(BeEmpty())
			Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateProcessing))

			w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationPauseBefore) })
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isTrue))
		})

		It("should not stop a step that has begun", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = waiting(steps.ReasonJoiningEtcdMembers)
			w.goTo(second)
			w.mustPass(seedB)
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationPauseBefore] = string(second) })
			w.mustPass(seedB)
			Expect(w.ran).To(HaveLen(2))
		})
	})

	Describe("attempts", func() {
		BeforeEach(func() {
			w.goTo(second)
		})

		It("should publish what a step waits for and look again when it says so", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = waiting(steps.ReasonJoiningEtcdMembers)
			Expect(w.mustPass(seedB).RequeueAfter).To(Equal(3 * time.Second))
			Expect(w.condition(second).Status).To(Equal(isProgressing))
			Expect(w.condition(second).Reason).To(Equal("JoiningEtcdMembers"))
			Expect(w.shoot().Status.LastOperation).To(HaveValue(And(
				HaveField("Type", gardencorev1beta1.LastOperationTypeLiveMigrate),
				HaveField("State", gardencorev1beta1.LastOperationStateProcessing),
				HaveField("Progress", int32(10)),
				HaveField("Description", ContainSubstring("Step 2 of 8 (destination)")),
			)))
			Expect(w.events()).To(HaveExactElements(
				ContainSubstring("Normal Started"), ContainSubstring("Normal JoiningEtcdMembers")))

			writes := len(w.statusWrites)
			w.mustPass(seedB)
			Expect(w.statusWrites).To(HaveLen(writes), "nothing new, nothing written")
			Expect(w.events()).To(BeEmpty())
		})

		It("should publish a failure, retry, and recover", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = failing
			_, err := w.pass(seedB)
			Expect(err).To(MatchError(errBoom))
			Expect(w.condition(second).Status).To(Equal(isProgressing))
			Expect(w.condition(second).Reason).To(Equal("ActionFailed"))
			Expect(w.condition(second).Message).To(Equal("failed to move the world"))
			Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateError))
			Expect(w.events()).To(ContainElement(ContainSubstring("Warning ActionFailed")))

			delete(w.actions, "destination step DestinationEtcdPeersJoined")
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isTrue))
			Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateProcessing))
			Expect(w.shoot().Status.LastOperation.Progress).To(Equal(int32(30)))
		})

		It("should become False past the deadline, name the runbook, and still finish", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = failing
			r := w.agent(seedB)
			r.Config.StepDeadlines = map[string]metav1.Duration{string(second): {Duration: time.Minute}}
			_, _ = w.passOf(r)
			w.clock.Step(time.Minute + time.Second)
			_, err := w.passOf(r)
			Expect(err).To(MatchError(errBoom))
			Expect(w.condition(second).Status).To(Equal(isFalse))
			Expect(w.condition(second).Reason).To(Equal("DeadlineExceeded"))
			Expect(w.condition(second).Message).To(And(ContainSubstring("failed to move the world"),
				ContainSubstring("1m0s"), ContainSubstring("docs/operations/DestinationEtcdPeersJoined.md")))
			Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateError))

			_, _ = w.passOf(r)
			Expect(overdue()).To(BeEquivalentTo(1), "the next pass of either agent tells it")

			delete(w.actions, "destination step DestinationEtcdPeersJoined")
			w.mustPass(seedB)
			Expect(w.statuses()).To(Equal("TTUUUUUU"))
			_, _ = w.pass(seedB)
			Expect(overdue()).To(BeZero())
		})

		DescribeTable("should not be made of less than all it needs",
			func(missing string, forget func(*agent.Options)) {
				options := w.agent(seedB).Options
				forget(&options)
				r, err := agent.New(options)
				Expect(err).To(MatchError(HaveSuffix("these options are missing: " + missing)))
				Expect(r).To(BeNil())
			},
			Entry("preflight", "Preflight", func(o *agent.Options) { o.Preflight = nil }),
			Entry("gate", "Gate", func(o *agent.Options) { o.Gate = nil }),
			Entry("clock", "Clock", func(o *agent.Options) { o.Clock = nil }),
			Entry("recorder", "Recorder", func(o *agent.Options) { o.Recorder = nil }),
			Entry("clients", "GardenClient, GardenAPIReader",
				func(o *agent.Options) { o.GardenClient, o.GardenAPIReader = nil, nil }),
			Entry("seed", "SeedName", func(o *agent.Options) { o.SeedName = "" }),
			Entry("a period", "Config.GatePeriod", func(o *agent.Options) { o.Config.GatePeriod = nil }),
			Entry("a step", "Actions of the destination: step DestinationEtcdPeersJoined", func(o *agent.Options) {
				delete(o.Actions[steps.Destination].Steps, second)
			}),
			Entry("a part in a step of the peer", "Actions of the source: part in step EtcdMigrationComplete",
				func(o *agent.Options) {
					delete(o.Actions[steps.Source].Assists,
						gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
				}),
			Entry("the ways back and the hand-over",
				"Actions of the source: abort, Actions of the destination: hand-over, "+
					"Actions of the destination: abort",
				func(o *agent.Options) {
					for role, actions := range o.Actions {
						actions.Abort, actions.HandOver = nil, nil
						o.Actions[role] = actions
					}
				}),
		)

		It("should report an action that is missing", func() {
			r := w.agent(seedB)
			delete(r.Actions[steps.Destination].Steps, second)
			_, err := w.passOf(r)
			Expect(err).To(MatchError(ContainSubstring("failed to find an action of the destination")))
			Expect(w.condition(second).Reason).To(Equal("ActionFailed"))
		})

		It("should publish reports of an action that is under way", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = func(
				ctx context.Context, m *migration.Migration,
			) (steps.Outcome, error) {
				Expect(m.Role).To(Equal(steps.Destination))
				Expect(m.SourceSeed).To(Equal(seedA))
				Expect(m.DestinationSeed).To(Equal(seedB))
				Expect(m.Step.Condition).To(Equal(second))
				m.Shoot.Status.LastOperation = nil // actions may change their copy

				Expect(m.Report(ctx, steps.ReasonPreparingDestination, "secrets")).To(Succeed())
				Expect(w.condition(second).Reason).To(Equal("PreparingDestination"))
				writes := len(w.statusWrites)
				Expect(m.Report(ctx, steps.ReasonPreparingDestination, "secrets")).To(Succeed())
				Expect(w.statusWrites).To(HaveLen(writes))
				w.clock.Step(time.Hour)
				Expect(m.Report(ctx, steps.ReasonJoiningEtcdMembers, "members")).To(Succeed())
				Expect(w.condition(second).Status).To(Equal(isFalse),
					"the deadline passed while the action was running")
				return steps.Done("joined"), nil
			}
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isTrue))
		})

		It("should read the Shoot once for a pass that nobody disturbs", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = func(
				ctx context.Context, m *migration.Migration,
			) (steps.Outcome, error) {
				Expect(m.Report(ctx, steps.ReasonPreparingDestination, "secrets")).To(Succeed())
				return steps.Waiting(0, steps.ReasonJoiningEtcdMembers, "members"), nil
			}
			r := w.agent(seedB)
			r.GardenAPIReader = readerFunc{Reader: w.client, before: func() error { w.gets++; return nil }}
			writes := len(w.statusWrites)
			_, err := w.passOf(r)
			Expect(err).NotTo(HaveOccurred())
			Expect(w.condition(second).Reason).To(Equal("JoiningEtcdMembers"))
			Expect(w.statusWrites[writes:]).To(HaveLen(3), "that it has begun, the report, and what it waits for")
			Expect(w.gets).To(Equal(1))
		})

		It("should keep what others write into the status at the same time", func() {
			written := false
			w.onStatusWrite = func(ctx context.Context, c client.Client) error {
				if written {
					return nil
				}
				written = true
				shoot := &gardencorev1beta1.Shoot{}
				Expect(c.Get(ctx, key, shoot)).To(Succeed())
				shoot.Status.Conditions[0].Status = isFalse
				return c.Status().Update(ctx, shoot)
			}
			w.mustPass(seedB)
			Expect(w.shoot().Status.Conditions[0].Status).To(Equal(isFalse))
			Expect(w.condition(second).Status).To(Equal(isTrue))
		})

		It("should not take a timeout for a write", func() {
			writes := 0
			w.onStatusWrite = func(ctx context.Context, c client.Client) error {
				if writes++; writes > 1 {
					return context.DeadlineExceeded
				}
				shoot := &gardencorev1beta1.Shoot{}
				Expect(c.Get(ctx, key, shoot)).To(Succeed())
				shoot.Status.Conditions[0].Status = isFalse
				return c.Status().Update(ctx, shoot)
			}
			_, err := w.pass(seedB)
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(w.ran).To(BeEmpty(), "the step has not begun")
		})

		It("should look again when somebody else has moved the migration on", func() {
			w.actions["destination step DestinationEtcdPeersJoined"] = func(
				context.Context, *migration.Migration,
			) (steps.Outcome, error) {
				w.change(func(s *gardencorev1beta1.Shoot) { s.Status.LiveMigration.Conditions[1].Status = isTrue })
				return steps.Waiting(0, steps.ReasonJoiningEtcdMembers, ""), nil
			}
			Expect(w.mustPass(seedB).RequeueAfter).To(Equal(time.Second))
			Expect(w.condition(second).Status).To(Equal(isTrue))
			Expect(w.condition(third).Status).To(Equal(isUnknown))
		})
	})

	Describe("what always runs", func() {
		It("should not run before the first step has begun, then on both sides", func() {
			var ran []string
			for _, role := range []string{"source", "destination"} {
				w.actions[role+" always"] = func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
					ran = append(ran, role)
					Expect(m.Report(ctx, steps.ReasonActionFailed, "must not be published")).To(Succeed())
					return steps.Outcome{RequeueAfter: 2 * time.Second}, nil
				}
			}
			w.actions["source step SourceEtcdPreparedForPeerJoin"] = waiting(steps.ReasonWaitingForSourceEtcd)
			w.mustPass(seedB)
			w.mustPass(seedA)
			Expect(ran).To(BeEmpty())

			Expect(w.mustPass(seedA).RequeueAfter).To(Equal(2 * time.Second))
			Expect(w.mustPass(seedB).RequeueAfter).To(Equal(2 * time.Second))
			Expect(ran).To(Equal([]string{"source", "destination"}))
			Expect(w.condition(first).Reason).To(Equal("WaitingForSourceEtcd"))
		})

		It("should keep the step from continuing when it fails, on both sides", func() {
			w.goTo(second)
			w.actions["source always"] = failing
			w.actions["destination always"] = failing
			_, err := w.pass(seedB)
			Expect(err).To(MatchError(errBoom))
			Expect(w.condition(second).Reason).To(Equal("SyncFailed"))
			Expect(w.condition(second).Status).To(Equal(isUnknown))
			w.events()

			_, err = w.pass(seedA)
			Expect(err).To(MatchError(errBoom))
			Expect(w.ran).To(BeEmpty())
			Expect(w.events()).To(
				ContainElement(ContainSubstring(
					"Warning SyncFailed The source failed in its part of step DestinationEtcdPeersJoined")))
		})

		It("should continue beside a long action, which also gets the last operation back", func() {
			w.goTo(second)
			synced := make(chan struct{}, 10)
			w.actions["destination step DestinationEtcdPeersJoined"] = func(
				ctx context.Context, _ *migration.Migration,
			) (steps.Outcome, error) {
				w.lock.Lock()
				w.actions["destination always"] = func(context.Context, *migration.Migration) (steps.Outcome, error) {
					synced <- struct{}{}
					return steps.Outcome{}, nil
				}
				w.lock.Unlock()
				w.change(func(s *gardencorev1beta1.Shoot) {
					s.Status.LastOperation.State = gardencorev1beta1.LastOperationStateAborted
				})
				Eventually(w.clock.HasWaiters).Should(BeTrue())
				w.clock.Step(15 * time.Second)
				Eventually(synced).Should(Receive())
				Eventually(func() gardencorev1beta1.LastOperationState { return w.shoot().Status.LastOperation.State }).
					Should(Equal(gardencorev1beta1.LastOperationStateProcessing))
				return steps.Done(""), nil
			}
			w.mustPass(seedB)
		})
	})

	Describe("the last operation", func() {
		DescribeTable("should be written again by the owner of the step when somebody else has written it",
			func(foreign *gardencorev1beta1.LastOperation) {
				w.goTo(second)
				w.actions["destination step DestinationEtcdPeersJoined"] = waiting(steps.ReasonJoiningEtcdMembers)
				w.mustPass(seedB)
				want := w.shoot().Status.LastOperation
				w.change(func(s *gardencorev1beta1.Shoot) { s.Status.LastOperation = foreign })

				w.mustPass(seedA)
				Expect(w.shoot().Status.LastOperation).To(Equal(foreign), "not the owner")
				w.actions["destination step DestinationEtcdPeersJoined"] = func(
					context.Context, *migration.Migration,
				) (steps.Outcome, error) {
					Expect(w.shoot().Status.LastOperation).
						To(HaveValue(HaveField("Type", gardencorev1beta1.LastOperationTypeLiveMigrate)),
							"before the action runs")
					return steps.Waiting(0, steps.ReasonJoiningEtcdMembers, "waiting"), nil
				}
				w.mustPass(seedB)
				got := w.shoot().Status.LastOperation
				got.LastUpdateTime = want.LastUpdateTime
				Expect(got).To(Equal(want))
			},
			Entry("aborted by a gardenlet that restarts", &gardencorev1beta1.LastOperation{
				Type:  gardencorev1beta1.LastOperationTypeLiveMigrate,
				State: gardencorev1beta1.LastOperationStateAborted, Description: "x",
			}),
			Entry("of another type", &gardencorev1beta1.LastOperation{
				Type:  gardencorev1beta1.LastOperationTypeReconcile,
				State: gardencorev1beta1.LastOperationStateProcessing, Description: "x",
			}),
			Entry("removed", nil),
		)
	})

	Describe("assists", func() {
		BeforeEach(func() {
			w.goTo(sixth)
		})

		It("should run when the peer has asked, and only then", func() {
			w.actions["destination step EtcdMigrationComplete"] = waiting(steps.ReasonJoiningLastEtcdMember)
			w.mustPass(seedB)
			w.mustPass(seedA)
			Expect(w.ran).To(Equal([]string{"destination step EtcdMigrationComplete"}))

			w.actions["destination step EtcdMigrationComplete"] = waiting(steps.ReasonReadyForSourceMemberRemoval)
			w.mustPass(seedB)
			w.ran = nil
			before := w.shoot()
			w.actions["source assist EtcdMigrationComplete"] = func(
				ctx context.Context, m *migration.Migration,
			) (steps.Outcome, error) {
				Expect(m.Role).To(Equal(steps.Source))
				Expect(m.Report(ctx, steps.ReasonActionFailed, "must not be published")).To(Succeed())
				return steps.Waiting(time.Second, "", "one removed"), nil
			}
			Expect(w.mustPass(seedA).RequeueAfter).To(Equal(time.Second))
			Expect(w.ran).To(Equal([]string{"source assist EtcdMigrationComplete"}))
			Expect(w.shoot()).To(Equal(before), "the condition belongs to the peer")
		})

		It("should report a failure as an event and be tried again", func() {
			w.actions["destination step EtcdMigrationComplete"] = waiting(steps.ReasonReadyForSourceMemberRemoval)
			w.mustPass(seedB)
			w.events()
			before := w.shoot()
			w.actions["source assist EtcdMigrationComplete"] = failing
			_, err := w.pass(seedA)
			Expect(err).To(MatchError(errBoom))
			Expect(w.shoot()).To(Equal(before))
			Expect(w.events()).To(
				HaveExactElements("Warning ActionFailed The source failed in its part of step EtcdMigrationComplete: " +
					"failed to move the world"))
		})

		It("should still run when the step is overdue", func() {
			w.actions["destination step EtcdMigrationComplete"] = waiting(steps.ReasonReadyForSourceMemberRemoval)
			w.mustPass(seedB)
			w.clock.Step(2 * time.Hour)
			w.mustPass(seedB)
			Expect(w.condition(sixth).Status).To(Equal(isFalse))
			Expect(w.condition(sixth).Reason).To(Equal("ReadyForSourceMemberRemoval"))
			w.ran = nil
			w.mustPass(seedA)
			Expect(w.ran).To(Equal([]string{"source assist EtcdMigrationComplete"}))
		})
	})

	Describe("an assist that begins the next step before its turn", func() {
		const prepares = "destination assist SourceEtcdPreparedForPeerJoin"

		BeforeEach(func() {
			w.actions["source step SourceEtcdPreparedForPeerJoin"] = waiting(steps.ReasonShootStatePersisted)
			w.mustPass(seedA)
			w.ran = nil
		})

		It("should run, and begin nothing else", func() {
			before := w.shoot()
			w.mustPass(seedB)
			Expect(w.ran).To(Equal([]string{prepares}))
			Expect(w.shoot()).To(Equal(before), "its own step has not begun")
		})

		DescribeTable("should be held by what holds that step",
			func(hold, release func()) {
				hold()
				_, err := w.pass(seedB)
				Expect(err).NotTo(HaveOccurred())
				Expect(w.ran).To(BeEmpty())
				Expect(w.condition(second).Reason).To(Equal("Pending"))
				release()
				w.mustPass(seedB)
				Expect(w.ran).To(Equal([]string{prepares}))
			},
			Entry("a pause before it", func() {
				w.change(func(s *gardencorev1beta1.Shoot) {
					s.Annotations[steps.AnnotationPauseBefore] = string(second)
				})
			}, func() {
				w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationPauseBefore) })
			}),
			Entry("a prerequisite of the destination",
				func() { w.findings[steps.Destination] = []string{"the seed has no backup bucket"} },
				func() { w.findings[steps.Destination] = nil }),
			Entry("a gate that is not proved", func() { w.gateErr = errBoom }, func() { w.gateErr = nil }),
		)

		It("should stay asked for whatever comes, to the end of the step and beyond it", func() {
			w.actions["source step SourceEtcdPreparedForPeerJoin"] = waiting(steps.ReasonWaitingForSourceEtcd)
			w.mustPass(seedA)
			Expect(w.condition(first).Status).To(Equal(isProgressing))
			Expect(w.condition(first).Reason).To(Equal("ShootStatePersisted"))
			Expect(w.condition(first).Message).To(HavePrefix("WaitingForSourceEtcd: "))

			w.actions["source step SourceEtcdPreparedForPeerJoin"] = failing
			_, err := w.pass(seedA)
			Expect(err).To(MatchError(errBoom))
			Expect(w.condition(first).Reason).To(Equal("ShootStatePersisted"))

			w.clock.Step(2 * time.Hour)
			_, err = w.pass(seedA)
			Expect(err).To(MatchError(errBoom))
			Expect(w.condition(first).Status).To(Equal(isFalse))
			Expect(w.condition(first).Reason).To(Equal("ShootStatePersisted"))
			w.mustPass(seedB)
			Expect(w.ran).To(ContainElement(prepares))

			delete(w.actions, "source step SourceEtcdPreparedForPeerJoin")
			w.mustPass(seedA)
			Expect(w.condition(first).Status).To(Equal(isTrue))
			Expect(w.condition(first).Reason).To(Equal("ShootStatePersisted"))
			w.mustPass(seedB)
			Expect(w.condition(second).Status).To(Equal(isTrue), "the step of the destination follows")
			Expect(w.condition(second).Reason).To(Equal("Completed"))
		})
	})

	DescribeTable("an assist should continue while the peer",
		func(reason string, trouble func()) {
			w.goTo(sixth)
			w.actions["destination step EtcdMigrationComplete"] = waiting(steps.ReasonReadyForSourceMemberRemoval)
			w.mustPass(seedB)
			w.events()

			trouble()
			_, _ = w.pass(seedB)
			_, _ = w.pass(seedB)
			Expect(w.condition(sixth).Status).To(Equal(isProgressing))
			Expect(w.condition(sixth).Reason).To(Equal("ReadyForSourceMemberRemoval"))
			if reason != "" {
				Expect(w.condition(sixth).Message).To(HavePrefix(reason + ": "))
				Expect(w.events()).To(HaveExactElements(HavePrefix("Warning " + reason + " EtcdMigrationComplete: ")))
			}

			w.gateErr = nil
			w.ran = nil
			w.mustPass(seedA)
			Expect(w.ran).To(Equal([]string{"source assist EtcdMigrationComplete"}))
		},
		Entry("cannot keep the infrastructure up to date", "SyncFailed", func() {
			w.actions["destination always"] = failing
		}),
		Entry("cannot prove the gate", "GateNotInForce", func() {
			w.gateErr = errors.New("the policy is not in force")
		}),
		Entry("fails", "ActionFailed", func() {
			w.actions["destination step EtcdMigrationComplete"] = failing
		}),
		Entry("is told to retry, and has not come far", "", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations["gardener.cloud/operation"] = "retry" })
			w.actions["destination step EtcdMigrationComplete"] = func(
				context.Context, *migration.Migration,
			) (steps.Outcome, error) {
				return steps.Waiting(0, steps.Reason(w.condition(sixth).Reason), "as before"), nil
			}
		}),
	)

	Describe("the hand-over", func() {
		BeforeEach(func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations[steps.AnnotationPauseBefore] = "Nothing" })
			w.goTo(last)
		})

		It("should make the last condition and the seed name change in one write", func() {
			writes := len(w.statusWrites)
			w.mustPass(seedB)

			Expect(w.statusWrites[writes:]).To(HaveLen(2), "the start of the step and its end")
			body := w.statusWrites[writes+1]
			Expect(body).To(And(ContainSubstring(`"seedName":"seed-b"`),
				ContainSubstring(`"type":"MigrationCompleted"`), ContainSubstring(`"resourceVersion"`)))
			Expect(strings.Count(body, `"status":"True"`)).To(Equal(8))

			shoot := w.shoot()
			Expect(shoot.Annotations).
				To(Equal(map[string]string{"other": "kept", "gardener.cloud/operation": "reconcile"}))
			Expect(shoot.Status.ObservedGeneration).To(Equal(shoot.Generation))
			Expect(w.events()).To(ContainElement(ContainSubstring("Normal HandedOver")))
		})

		It("should request the reconciliation with a write of the Shoot itself, whatever the hand-over sets", func() {
			handOver := w.handOver
			w.handOver = func(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error {
				shoot.Annotations["gardener.cloud/operation"] = "reconcile"
				return handOver(m, shoot)
			}
			w.mustPass(seedB)
			Expect(w.statusWrites[len(w.statusWrites)-1]).NotTo(ContainSubstring("gardener.cloud/operation"))
			Expect(w.shoot().Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))
			Expect(w.events()).To(ContainElement(ContainSubstring("Normal HandedOver")))
		})

		It("should not happen when it fails or does not set the seed", func() {
			w.handOver = func(*migration.Migration, *gardencorev1beta1.Shoot) error { return errBoom }
			_, err := w.pass(seedB)
			Expect(err).To(MatchError(errBoom))
			w.handOver = func(*migration.Migration, *gardencorev1beta1.Shoot) error { return nil }
			_, err = w.pass(seedB)
			Expect(err).To(MatchError(ContainSubstring(`status.seedName is "seed-a" afterwards`)))
			Expect(w.condition(last).Status).To(Equal(isProgressing))
			Expect(w.shoot().Annotations).To(HaveKey(steps.AnnotationIntent))

			r := w.agent(seedB)
			actions := r.Actions[steps.Destination]
			actions.HandOver = nil
			r.Actions[steps.Destination] = actions
			_, err = w.passOf(r)
			Expect(err).To(MatchError(ContainSubstring("has no hand-over")))
		})

		It("should ask for a reconciliation also after a restart, but only once", func() {
			w.mustPass(seedB)
			w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, "gardener.cloud/operation") })
			Expect(w.mustPass(seedA)).To(BeZero())
			Expect(w.shoot().Annotations).NotTo(HaveKey("gardener.cloud/operation"), "not the source's business")
			w.mustPass(seedB)
			Expect(w.shoot().Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))

			By("taking the annotation away and increasing the generation, as the API server does")
			w.change(func(s *gardencorev1beta1.Shoot) {
				delete(s.Annotations, "gardener.cloud/operation")
				s.Status.ObservedGeneration = s.Generation - 1
			})
			w.mustPass(seedB)
			Expect(w.shoot().Annotations).NotTo(HaveKey("gardener.cloud/operation"))
		})

		DescribeTable("keeps what was requested in flight",
			func(operations, follows string, wanted ...string) {
				w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations["gardener.cloud/operation"] = operations })
				w.mustPass(seedB)
				Expect(w.shoot().Annotations).To(HaveKeyWithValue("gardener.cloud/operation", follows))
				Expect(w.shoot().Status.ObservedGeneration).To(Equal(w.shoot().Generation),
					"the request raises it again")
				events := w.events()
				for _, text := range wanted {
					Expect(events).To(ContainElement(ContainSubstring(text)))
				}
			},
			Entry("a rotation, beside the reconciliation that the gardenlet wakes up for",
				"rotate-observability-credentials", "rotate-observability-credentials;reconcile",
				"Normal RequestsKept Operations that were requested during the migration follow now: "+
					"rotate-observability-credentials", "Normal HandedOver"),
			Entry("two of the maintenance time window, one of which was only stored",
				"rotate-credentials-complete;reconcile", "rotate-credentials-complete;reconcile", "Normal HandedOver"),
			Entry("a retry, which came too late", "retry", "reconcile", "Normal HandedOver"),
			Entry("what takes no reconciliation beside it, as a message", "force-in-place-update", "reconcile",
				"Warning RequestDropped The operation force-in-place-update", "Normal HandedOver"),
			Entry("maintenance, which asks for the reconciliation itself", "maintain", "maintain"),
		)

		It("should ask for the reconciliation once maintenance has taken its request away", func() {
			w.change(func(s *gardencorev1beta1.Shoot) { s.Annotations["gardener.cloud/operation"] = "maintain" })
			w.mustPass(seedB)
			w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, "gardener.cloud/operation") })
			w.mustPass(seedB)
			Expect(w.shoot().Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))
		})

		It("should leave alone what waits for the maintenance time window", func() {
			w.change(func(s *gardencorev1beta1.Shoot) {
				s.Annotations["maintenance.gardener.cloud/operation"] = "rotate-ssh-keypair"
			})
			w.mustPass(seedB)
			Expect(w.shoot().Annotations).To(And(HaveKeyWithValue("gardener.cloud/operation", "reconcile"),
				HaveKeyWithValue("maintenance.gardener.cloud/operation", "rotate-ssh-keypair")))
		})

		DescribeTable("lets nothing but the restoration happen where the gardenlet restores",
			func(operations, now, later string) {
				w.handOver = handOverWithWorkers
				w.change(func(s *gardencorev1beta1.Shoot) {
					s.Annotations["gardener.cloud/operation"] = operations
					s.Annotations["maintenance.gardener.cloud/operation"] = "rotate-ssh-keypair"
				})
				w.mustPass(seedB)
				annotations := w.shoot().Annotations
				Expect(annotations["gardener.cloud/operation"]).To(Equal(now))
				Expect(annotations["maintenance.gardener.cloud/operation"]).To(Equal(later))
				if later != "rotate-ssh-keypair" {
					Expect(w.events()).To(ContainElement(ContainSubstring("Normal RequestsKept Operations that were " +
						"requested during the migration follow in the next maintenance time window")))
				}
			},
			Entry("a rollout of workers that do not exist yet", "rollout-workers=*", "",
				"rotate-ssh-keypair;rollout-workers=*"),
			Entry("a rotation that waits already", "rotate-ssh-keypair;rotate-ca-complete", "",
				"rotate-ssh-keypair;rotate-ca-complete"),
			Entry("what can only be carried out alone", "maintain", "maintain", "rotate-ssh-keypair"),
			Entry("a reconciliation", "reconcile", "", "rotate-ssh-keypair"),
		)

		Context("when a gardenlet that restarts sets the last operation to Aborted", func() {
			abort := func(description string) {
				w.change(func(s *gardencorev1beta1.Shoot) {
					s.Status.LastOperation.State = gardencorev1beta1.LastOperationStateAborted
					if description != "" {
						s.Status.LastOperation.Description = description
					}
				})
			}

			It("should restore it, and still ask for the reconciliation", func() {
				w.mustPass(seedB)
				w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, "gardener.cloud/operation") })
				before := w.shoot()
				abort("")
				Expect(agent.Predicate().Update(event.UpdateEvent{ObjectOld: before,
					ObjectNew: w.shoot()})).To(BeTrue())
				w.mustPass(seedA)
				Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateAborted),
					"not the source's business")
				w.mustPass(seedB)
				Expect(w.shoot().Status.LastOperation).To(HaveValue(And(
					HaveField("Type", gardencorev1beta1.LastOperationTypeRestore),
					HaveField("State", gardencorev1beta1.LastOperationStateSucceeded))))
				Expect(w.shoot().Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))
			})

			It("should leave an operation alone that the gardenlet has begun", func() {
				w.mustPass(seedB)
				abort("Restoration of Shoot cluster initialized.")
				w.mustPass(seedB)
				Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateAborted))
			})

			It("should leave it to the gardenlet where that restores, which does so after this, too", func() {
				w.handOver = handOverWithWorkers
				w.mustPass(seedB)
				abort("")
				w.mustPass(seedB)
				Expect(w.shoot().Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateAborted))
			})
		})

		It("should leave the reconciliation to the registry when the gardenlet itself restores", func() {
			w.handOver = handOverWithWorkers
			w.mustPass(seedB)
			Expect(w.shoot().Annotations).To(Equal(map[string]string{"other": "kept"}))
			Expect(w.shoot().Status.ObservedGeneration).To(Equal(int64(6)))
		})
	})

	Describe("a lost intent", func() {
		It("should be reported, and nothing be done any more", func() {
			w.goTo(third)
			w.change(func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, steps.AnnotationIntent) })
			before := w.shoot()
			w.mustPass(seedA)
			w.mustPass(seedB)
			Expect(w.shoot()).To(Equal(before))
			Expect(w.ran).To(BeEmpty())
			Expect(w.events()).To(HaveEach(ContainSubstring("Warning IntentLost")))
		})
	})

	Describe("a Shoot that the seed authorizer does not let it read", func() {
		var (
			agentOf  func(cached bool) *agent.Reconciler
			refusing = func() error {
				return apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), key.Name,
					errors.New("no relationship found"))
			}
		)
		BeforeEach(func() {
			agentOf = func(cached bool) *agent.Reconciler {
				r := w.agent(seedA)
				r.GardenAPIReader = readerFunc{Reader: w.client, before: refusing}
				if !cached {
					Expect(w.client.Delete(ctx, w.shoot())).To(Succeed())
				}
				return r
			}
		})

		It("should be over if it has left the seed", func() {
			w.goTo(third)
			result, err := w.passOf(agentOf(false))
			Expect(err).NotTo(HaveOccurred())
			Expect(result).To(BeZero())
			Expect(overdue()).To(BeZero())
		})

		It("should be tried again as long as it belongs to the seed", func() {
			_, err := w.passOf(agentOf(true))
			Expect(err).To(MatchError(ContainSubstring("no relationship found")))
		})
	})

	It("should make an event for each transition", func() {
		for range 10 {
			w.mustPass(seedA)
			w.mustPass(seedB)
		}
		recorded := w.events()
		Expect(recorded[0]).
			To(Equal("Normal Requested Live migration of the control plane from seed seed-a to seed seed-b"))
		for _, step := range steps.Table() {
			Expect(recorded).To(ContainElement(ContainSubstring("Normal Started " + step.String() + " is Progressing")))
			Expect(recorded).To(
				ContainElement("Normal Completed " + step.String() + " is True: done by the " + string(step.Owner)))
		}
	})
})

// readerFunc is a reader that calls a function before it reads a Shoot.
type readerFunc struct {
	client.Reader
	before func() error
}

func (r readerFunc) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*gardencorev1beta1.Shoot); ok {
		if err := r.before(); err != nil {
			return err
		}
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

// handOverWithWorkers hands a Shoot over that the gardenlet has to restore.
func handOverWithWorkers(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error {
	shoot.Status.SeedName = ptr.To(m.DestinationSeed)
	shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:        gardencorev1beta1.LastOperationTypeMigrate,
		State:       gardencorev1beta1.LastOperationStateSucceeded,
		Description: conditions.HandOverDescription(m.SourceSeed),
	}
	return nil
}
