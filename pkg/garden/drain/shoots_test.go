// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var _ = Describe("Shoots", func() {
	const (
		intent = "migration.gardener.cloud/live-migrate"
		prefix = "migration.gardener.cloud/drain-"
	)
	var (
		seeds = func(objects ...client.Object) *fakeGarden {
			return newGarden(append([]client.Object{newSeed("seed-a", asked()), newSeed("seed-b")}, objects...)...)
		}
		forbidden = apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), "x", errors.New("not this one"))
	)

	It("should start a move with one write", func() {
		f := seeds(newShoot("x", func(s *gardencorev1beta1.Shoot) {
			s.Annotations["migration.shoot.gardener.cloud/abort-live-migration"] = "true"
			s.Annotations[prefix+"result"], s.Annotations[prefix+"ended-at"], s.Annotations[prefix+
				"message"] = "Succeeded", "2026-11-01T00:00:00Z", "of old"
		}))
		f.reconcile()
		x := f.shoot("x")
		Expect(x.Spec.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(x.Annotations).To(Equal(map[string]string{
			"own": "kept", intent: "true",
			prefix + "started-by": "seed-a", prefix + "started-at": "2026-11-20T10:00:00Z",
			prefix + "destination": "seed-b", prefix + "way": "Live", prefix + "attempts": "1",
		}))
		Expect(slices.DeleteFunc(f.writes, func(write string) bool {
			return write != "binding Shoot x" && write != "patch Shoot x"
		})).To(Equal([]string{"binding Shoot x"}))
		Expect(f.told()).To(
			ContainElement("Normal DrainMoveStarted The drain of seed seed-a moves the control plane to seed " +
				"seed-b (Live)"))
		Expect(f.table("seed-a")).
			To(HaveKeyWithValue("x", And(HaveField("Reason", BeEquivalentTo("Migrating")), HaveField("Attempts", 1))))
	})

	It("should ask with the annotation that permits a gap, and with no other", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x", single, withGap, window(9)))
		f.reconcile()
		Expect(f.shoot("x").Spec.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(f.shoot("x").Annotations).To(And(Not(HaveKey(intent)), HaveKeyWithValue(intent+"-with-gap", "true"),
			HaveKeyWithValue(prefix+"way", "LiveWithGap")))
	})

	It("should start a classic move without the intent", func() {
		f := newGarden(newSeed("seed-a", asked("fallback", "classic")), newSeed("seed-b"),
			newShoot("x", single, window(9), func(s *gardencorev1beta1.Shoot) {
				s.Annotations[intent] = "true"
			}))
		f.reconcile()
		Expect(f.shoot("x").Spec.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(f.shoot("x").Annotations).To(And(Not(HaveKey(intent)), HaveKeyWithValue(prefix+"way", "Classic")))
	})

	It("should not move a shoot classically that wakes up meanwhile, and look again", func() {
		f := seeds(newShoot("x", hibernated))
		list := &gardencorev1beta1.ShootList{}
		Expect(f.List(context.Background(), list)).To(Succeed())
		f.reconcile()
		Expect(f.shoot("x").Annotations).To(HaveKeyWithValue(prefix+"way", "ClassicWhileHibernated"))

		f = seeds(newShoot("x", hibernated))
		Expect(f.List(context.Background(), list)).To(Succeed())
		// The process has begun: from then on it decides from what the cache has.
		f.changeSeed("seed-a", cancelled)
		f.reconcile()
		f.changeSeed("seed-a", asked())
		f.stale = list.Items
		f.changeShoot("x", func(s *gardencorev1beta1.Shoot) { *s.Spec.Hibernation.Enabled = false })
		Expect(f.reconcile()).To(Equal(reconcile.Result{RequeueAfter: time.Second}))
		Expect(f.moving()).To(BeEmpty())
		f.stale = nil
		f.reconcile()
		Expect(f.moving()).To(BeEmpty())
		Expect(f.table("seed-a")).To(HaveKeyWithValue("x", HaveField("Reason", BeEquivalentTo("WakingUp"))))
	})

	It("should keep the budget, also while the cache lags behind what was written", func() {
		var objects []client.Object
		for i := range 6 {
			objects = append(objects, newShoot(fmt.Sprint(i)))
		}
		f := seeds(objects...)
		list := &gardencorev1beta1.ShootList{}
		Expect(f.List(context.Background(), list)).To(Succeed())
		f.stale = list.Items
		for range 3 {
			f.reconcile()
			Expect(f.moving()).To(HaveLen(2))
		}
		f.stale = nil
		f.reconcile()
		Expect(f.moving()).To(HaveLen(2))
	})

	It("should begin with what the API server has, not the cache: another process may have led before", func() {
		f := seeds(newShoot("x"), newShoot("y"), newShoot("z"))
		list := &gardencorev1beta1.ShootList{}
		Expect(f.List(context.Background(), list)).To(Succeed())
		f.reconcile()
		before := f.moving()
		Expect(before).To(HaveLen(2))

		f.stale = list.Items
		f.restart()
		f.reconcile()
		Expect(f.moving()).To(Equal(before))
	})

	It("should spread moves over destinations, and count those that others have started", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newSeed("seed-c"), newShoot("x"), newShoot("y"),
			newShoot("z"),
			newShoot("theirs", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SeedName, s.Annotations[intent] = new("seed-b"), "true"
			}))
		f.reconcile()
		Expect(f.moving()).To(HaveLen(2))
		Expect(f.moving()).To(HaveKeyWithValue("theirs", "seed-b"))
		Expect(f.moving()).To(ContainElement("seed-c"))
	})

	It("should use the whole budget in one pass, although each start changes which destination is the best", func() {
		objects := []client.Object{newSeed("seed-d"), newSeed("seed-e"), newSeed("seed-f")}
		for _, source := range []string{"seed-a", "seed-b", "seed-c"} {
			objects = append(objects, newSeed(source, asked()))
			for i := range 3 {
				objects = append(objects,
					newShoot(fmt.Sprintf("%s-%d", source, i), func(s *gardencorev1beta1.Shoot) {
						s.Spec.SeedName, s.Status.SeedName = &source, &source
					}))
			}
		}
		f := newGarden(objects...)
		f.reconcile()
		into := map[string]int{}
		for _, destination := range f.moving() {
			into[destination]++
		}
		Expect(into).To(Equal(map[string]int{"seed-d": 2, "seed-e": 2, "seed-f": 1}))
		f.writes = nil
		f.reconcile()
		Expect(f.writes).To(BeEmpty())
	})

	It("should record a refusal, try again after a while, and leave the shoot alone in the end", func() {
		f := seeds(newShoot("x"))
		f.refusal = forbidden
		Expect(f.reconcile()).To(Equal(reconcile.Result{RequeueAfter: 30 * time.Second}))
		Expect(f.shoot("x").Spec.SeedName).To(HaveValue(Equal("seed-a")))
		Expect(f.shoot("x").Annotations).To(And(
			HaveKeyWithValue(prefix+"result", "Refused"), HaveKeyWithValue(prefix+"attempts", "1"),
			HaveKeyWithValue(prefix+"destination", "seed-b"),
			HaveKeyWithValue(prefix+"ended-at", "2026-11-20T10:00:00Z"),
			HaveKeyWithValue(prefix+"message", ContainSubstring("not this one")), Not(HaveKey(intent)),
		))
		Expect(f.told()).To(
			ContainElement(And(HavePrefix("Warning DrainMoveRefused"), ContainSubstring("not this one"))))
		Expect(f.table("seed-a")).To(HaveKeyWithValue("x", HaveField("Reason", BeEquivalentTo("RetryLater"))))

		f.clock.Step(time.Minute)
		f.reconcile()
		Expect(f.shoot("x").Annotations).To(HaveKeyWithValue(prefix+"attempts", "1"))
		f.refusal = apierrors.NewInvalid(gardencorev1beta1.SchemeGroupVersion.WithKind("Shoot").GroupKind(), "x",
			field.ErrorList{field.Forbidden(field.NewPath("spec"), "never")})
		for _, expected := range []string{"2", "3", "3"} {
			f.clock.Step(10 * time.Minute)
			f.reconcile()
			Expect(f.shoot("x").Annotations).To(HaveKeyWithValue(prefix+"attempts", expected))
		}
		Expect(f.table("seed-a")).To(HaveKeyWithValue("x", HaveField("Reason", BeEquivalentTo("StartRefused"))))

		By("a new beginning counts again")
		f.refusal = nil
		f.changeSeed("seed-a", cancelled)
		f.reconcile()
		f.clock.Step(time.Minute)
		f.changeSeed("seed-a", asked())
		f.reconcile()
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}))
		Expect(f.shoot("x").Annotations).To(And(HaveKeyWithValue(prefix+"attempts", "1"), Not(HaveKey(prefix+"result")),
			Not(HaveKey(prefix+"message"))))
	})

	It("should not take a fault of the API server for a refusal", func() {
		f := seeds(newShoot("x"))
		f.refusal = apierrors.NewInternalError(errors.New("broken"))
		_, err := f.Reconcile(context.Background(), reconcile.Request{})
		Expect(err).To(MatchError(And(ContainSubstring("failed to bind Shoot garden-demo/x to seed seed-b"),
			ContainSubstring("broken"))))
		Expect(f.shoot("x").Annotations).To(Equal(map[string]string{"own": "kept"}))
	})

	It("should look again soon when the shoot has changed since the decision", func() {
		f := seeds(newShoot("x"))
		f.refusal = apierrors.NewConflict(gardencorev1beta1.Resource("shoots"), "x", errors.New("changed"))
		Expect(f.reconcile()).To(Equal(reconcile.Result{RequeueAfter: time.Second}))
		Expect(f.shoot("x").Annotations).To(Equal(map[string]string{"own": "kept"}))
		f.refusal = nil
		f.reconcile()
		Expect(f.moving()).To(HaveKey("x"))
	})

	It("should name the shoot where a refusal or an end cannot be recorded", func() {
		f := seeds(newShoot("x"),
			newShoot("y", func(s *gardencorev1beta1.Shoot) { s.Annotations[prefix+"started-by"] = "seed-a" }))
		f.refusal, f.failure["patch Shoot"] = forbidden, errors.New("no quota")
		_, err := f.Reconcile(context.Background(), reconcile.Request{})
		Expect(err).To(MatchError(And(
			ContainSubstring("failed to record at Shoot garden-demo/x that the move to seed seed-b was refused"),
			ContainSubstring("failed to record at Shoot garden-demo/y that its move is over"),
			ContainSubstring("no quota"),
		)))
	})

	Describe("the end of a move", func() {
		var f *fakeGarden

		BeforeEach(func() {
			f = seeds(newShoot("x"))
			f.Budget.Pause = time.Minute
			f.reconcile()
			Expect(f.moving()).To(HaveKey("x"))
			f.told()
			f.clock.Step(5 * time.Minute)
		})

		It("should be recorded once when the shoot has arrived", func() {
			f.arrive("x")
			f.reconcile()
			Expect(f.shoot("x").Annotations).To(And(HaveKeyWithValue(prefix+"result", "Succeeded"),
				HaveKeyWithValue(prefix+"ended-at", "2026-11-20T10:05:00Z")))
			Expect(f.told()).To(
				ContainElement("Normal DrainMoveEnded The move of the control plane by the drain of seed seed-a is " +
					"over: Succeeded"))
			Expect(f.table("seed-a")).To(HaveKeyWithValue("x", HaveField("State", BeEquivalentTo("Done"))))

			f.clock.Step(time.Minute)
			f.reconcile()
			Expect(f.shoot("x").Annotations).To(HaveKeyWithValue(prefix+"ended-at", "2026-11-20T10:05:00Z"))
		})

		It("should not be recorded before the destination has restored the shoot", func() {
			operation := func(kind gardencorev1beta1.LastOperationType, state gardencorev1beta1.LastOperationState) {
				f.arrive("x")
				f.changeShoot("x", func(s *gardencorev1beta1.Shoot) {
					s.Status.LastOperation.Type, s.Status.LastOperation.State = kind, state
				})
				f.reconcile()
			}
			reason := func() string { return string(f.table("seed-a")["x"].Reason) }
			operation("Migrate", "Succeeded")
			Expect(f.shoot("x").Annotations).NotTo(HaveKey(prefix + "result"))
			Expect(reason()).To(Equal("Migrating"))
			operation("Restore", "Failed")
			Expect(f.shoot("x").Annotations).NotTo(HaveKey(prefix + "result"))
			Expect(reason()).To(Equal("OperationFailed"))
			Expect(f.table("seed-a")["x"].Message).To(ContainSubstring("gardener.cloud/operation=retry"))
			operation("Restore", "Succeeded")
			Expect(f.shoot("x").Annotations).To(HaveKeyWithValue(prefix+"result", "Succeeded"))
			Expect(reason()).To(Equal("Moved"))
		})

		It("should be an abort when somebody has set the shoot back, which is not tried again", func() {
			f.changeShoot("x", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SeedName = new("seed-a")
				delete(s.Annotations, intent)
			})
			for range 2 {
				f.reconcile()
				Expect(f.moving()).To(BeEmpty())
			}
			Expect(f.shoot("x").Annotations).To(HaveKeyWithValue(prefix+"result", "Aborted"))
			Expect(f.told()).To(ContainElement(HavePrefix("Warning DrainMoveEnded")))
			Expect(f.table("seed-a")).To(HaveKeyWithValue("x", HaveField("Reason", BeEquivalentTo("MigrationAborted"))))
		})

		It("should be followed by the pause, at the end of which it looks again", func() {
			Expect(f.Create(context.Background(), newShoot("y"))).To(Succeed())
			f.arrive("x")
			Expect(f.reconcile().RequeueAfter).To(Equal(30 * time.Second))
			Expect(f.moving()).To(BeEmpty())
			f.clock.Step(45 * time.Second)
			Expect(f.reconcile().RequeueAfter).To(Equal(15 * time.Second))
			f.clock.Step(15 * time.Second)
			f.reconcile()
			Expect(f.moving()).To(HaveKey("y"))
		})

		It("should be recorded also after the drain was cancelled", func() {
			f.changeSeed("seed-a", cancelled)
			f.reconcile()
			f.arrive("x")
			f.reconcile()
			Expect(f.shoot("x").Annotations).To(HaveKeyWithValue(prefix+"result", "Succeeded"))
		})
	})
})
