// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pure "github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/test/seedlook"
)

// Seeds seed-a, seed-m and seed-b lie in a row: both neighbours are near, the ends are too far apart. The shoots belong
// into the region of seed-b.
var _ = Describe("By way of other seeds", func() {
	const prefix = "migration.gardener.cloud/drain-"

	in := func(region string) func(*gardencorev1beta1.Seed) {
		return func(s *gardencorev1beta1.Seed) { s.Spec.Provider.Region = region }
	}
	distances := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "garden", Name: "distances",
				Labels:      map[string]string{"scheduling.gardener.cloud/purpose": "region-config"},
				Annotations: map[string]string{"scheduling.gardener.cloud/cloudprofiles": "local"},
			},
			Data: map[string]string{"a": "m: 100\nb: 300\n", "m": "a: 100\nb: 110\n", "b": "a: 300\nm: 110\n"},
		}
	}
	there := func(s *gardencorev1beta1.Shoot) { s.Spec.Region = "b" }
	row := func(f *fakeGarden) string {
		GinkgoHelper()
		row := f.table("seed-a")["x"]
		return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", row.State, row.Reason, row.Destination,
			row.FinalDestination))
	}
	// inARow returns the garden with shoot x. The changes are for the seed on the way.
	inARow := func(a func(*gardencorev1beta1.Seed), m ...func(*gardencorev1beta1.Seed)) *fakeGarden {
		return newGarden(newSeed("seed-a", in("a"), a), newSeed("seed-m", append(m, in("m"))...),
			newSeed("seed-b", in("b")), newShoot("x", there), distances())
	}
	ofDrain := func(f *fakeGarden) map[string]string {
		GinkgoHelper()
		out := maps.Clone(f.shoot("x").Annotations)
		maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, prefix) })
		return out
	}
	// onTheWay brings shoot x into the seed on the way.
	onTheWay := func(f *fakeGarden) {
		GinkgoHelper()
		f.reconcile()
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-m"}))
		f.arrive("x")
	}

	It("should move a shoot by one migration after the other, and survive a restart before each", func() {
		f := inARow(asked("max-hops", "2"))
		f.reconcile()
		Expect(row(f)).To(Equal("Running Migrating seed-m seed-b"))
		Expect(ofDrain(f)).To(Equal(map[string]string{
			prefix + "started-by": "seed-a", prefix + "started-at": "2026-11-20T10:00:00Z",
			prefix + "destination": "seed-m", prefix + "way": "Live", prefix + "attempts": "1",
			prefix + "final-destination": "seed-b", prefix + "from": "seed-a", prefix + "hop": "1",
		}))
		Expect(f.told()).To(ContainElement("Normal DrainMoveStarted The drain of seed seed-a moves the control plane " +
			"to seed seed-m, migration 1 on the way to seed seed-b (Live)"))

		f.restart()
		f.reconcile()
		Expect(row(f)).To(Equal("Running Migrating seed-m seed-b"))
		f.clock.Step(15 * time.Minute)
		f.arrive("x")
		f.restart()
		f.reconcile()
		Expect(f.told()).To(ContainElements(
			"Normal DrainMoveEnded The move of the control plane by the drain of seed seed-a is over: Succeeded; it "+
				"is in seed seed-m, on its way to seed seed-b",
			"Normal DrainMoveStarted The drain of seed seed-a moves the control plane to seed seed-b, migration 2 on "+
				"the way to seed seed-b (Live)"))
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}))
		Expect(f.shoot("x").Annotations).To(HaveKey("migration.gardener.cloud/live-migrate"))
		Expect(ofDrain(f)).To(Equal(map[string]string{
			prefix + "started-by": "seed-a", prefix + "started-at": "2026-11-20T10:15:00Z",
			prefix + "destination": "seed-b", prefix + "way": "Live", prefix + "attempts": "1",
			prefix + "final-destination": "seed-b", prefix + "from": "seed-m", prefix + "hop": "2",
		}))
		Expect(row(f)).To(Equal("Running Migrating seed-b"))

		f.restart()
		f.arrive("x")
		f.reconcile()
		Expect(row(f)).To(Equal("Done Moved seed-b"))
		Expect(f.seed("seed-a").Status.Conditions).To(ContainElement(And(HaveField("Type", pure.ConditionDrained),
			HaveField("Reason", "Empty"))))
	})

	It("should not start the next migration twice while the cache lags behind", func() {
		f := inARow(asked("max-hops", "2"))
		onTheWay(f)
		list := &gardencorev1beta1.ShootList{}
		Expect(f.List(context.Background(), list)).To(Succeed())
		f.reconcile()
		before := f.shoot("x")
		f.stale = list.Items
		f.reconcile()
		f.reconcile()
		Expect(f.shoot("x")).To(Equal(before))
	})

	DescribeTable("should keep a shoot that cannot be reached, and say what is permitted", func(
		a func(*gardencorev1beta1.Seed), m func(*gardencorev1beta1.Seed), text string,
	) {
		f := inARow(a, m)
		f.reconcile()
		Expect(row(f)).To(Equal("Blocked RegionsTooDistant"))
		Expect(f.moving()).To(BeEmpty())
		message := f.table("seed-a")["x"].Message
		if text == "" {
			Expect(message).NotTo(ContainSubstring("by way of"))
		}
		Expect(message).To(ContainSubstring(text))
	},
		Entry("without consent", asked(), none[*gardencorev1beta1.Seed], "seed seed-b can be reached by way of seed "+
			"seed-m: to permit that, annotate Seed seed-a with migration.gardener.cloud/drain-max-hops=2"),
		Entry("one migration is no consent", asked("max-hops", "1"), none[*gardencorev1beta1.Seed],
			"drain-max-hops=2"),
		Entry("the seed on the way has another gardenlet", asked("max-hops", "3"),
			func(s *gardencorev1beta1.Seed) { s.Status.Gardener.Version = "v1.149.0" }, ""),
		Entry("the seed on the way is not ready", asked("max-hops", "3"),
			func(s *gardencorev1beta1.Seed) { s.Status.Conditions[0].Status = gardencorev1beta1.ConditionFalse }, ""),
		Entry("the seed on the way is drained itself", asked("max-hops", "3"), asked(), ""),
		Entry("the seed on the way is hidden", asked("max-hops", "3"),
			func(s *gardencorev1beta1.Seed) { s.Spec.Settings.Scheduling.Visible = false }, ""),
		Entry("the seed on the way is full", asked("max-hops", "3"), func(s *gardencorev1beta1.Seed) {
			s.Status.Allocatable = corev1.ResourceList{gardencorev1beta1.ResourceShoots: resource.MustParse("0")}
		}, ""),
		Entry("the seed on the way has a taint", asked("max-hops", "3"), func(s *gardencorev1beta1.Seed) {
			s.Spec.Taints = []gardencorev1beta1.SeedTaint{{Key: "seed.gardener.cloud/protected"}}
		}, ""),
	)

	It("should not take a way that nobody knows the length of", func() {
		f := inARow(asked("max-hops", "3"))
		unknown := distances()
		unknown.Data["m"] = "a: 100\n"
		Expect(f.Update(context.Background(), unknown)).To(Succeed())
		f.reconcile()
		Expect(row(f)).To(Equal("Blocked RegionsTooDistant"))
	})

	Describe("where agents measure", func() {
		pairs := [][2]string{{"seed-a", "seed-m"}, {"seed-m", "seed-b"}, {"seed-a", "seed-b"}}
		// measured lets the agents of the pairs have measured these round trips; zero for none.
		measured := func(f *fakeGarden, trips ...time.Duration) {
			GinkgoHelper()
			all := map[string]*seedfacts.Probes{}
			for i, trip := range trips {
				for _, way := range [][2]string{{pairs[i][0], pairs[i][1]}, {pairs[i][1], pairs[i][0]}} {
					if all[way[0]] == nil {
						all[way[0]] = &seedfacts.Probes{}
					}
					if trip > 0 {
						all[way[0]].Set(seedfacts.Connection{Seed: way[1], Result: &seedfacts.ProbeResult{
							Looked:    seedfacts.Looked{LookedAt: metav1.NewTime(f.clock.Now())},
							RoundTrip: metav1.Duration{Duration: trip * time.Millisecond}, Sent: 100 << 20,
							Received: 100 << 20}})
					}
				}
			}
			for name, probes := range all {
				f.changeSeed(name, func(s *gardencorev1beta1.Seed) {
					seedlook.Say(s, seedfacts.AnnotationProbes, probes)
					seedfacts.DropRequests(s, *probes, f.clock.Now())
				})
			}
		}
		requests := func(f *fakeGarden) map[string]string {
			GinkgoHelper()
			out := map[string]string{}
			for _, name := range []string{"seed-a", "seed-b", "seed-m"} {
				for key, value := range f.seed(name).Annotations {
					if other, ok := strings.CutPrefix(key, "probe.livecpm.gardener.cloud/"); ok {
						out[name+" "+other] = value
					}
				}
			}
			return out
		}

		It("should have all connections on the way measured before the first migration", func() {
			f := inARow(asked("max-hops", "2"))
			measured(f, 0, 0, 0)
			f.reconcile()
			Expect(row(f)).To(Equal("Waiting DistanceNotMeasured seed-m seed-b"))
			Expect(f.moving()).To(BeEmpty())
			at := "2026-11-20T10:00:00Z"
			Expect(requests(f)).To(Equal(map[string]string{"seed-a seed-m": at, "seed-m seed-a": at,
				"seed-m seed-b": at, "seed-b seed-m": at}))

			f.clock.Step(time.Minute)
			f.restart()
			f.reconcile()
			Expect(requests(f)).To(HaveEach(at), "they are asked once")

			measured(f, 60, 0, 0)
			f.reconcile()
			Expect(row(f)).To(Equal("Waiting DistanceNotMeasured seed-m seed-b"))
			measured(f, 60, 70, 0)
			f.clock.Step(30 * time.Second)
			f.reconcile()
			Expect(requests(f)).To(BeEmpty())
			Expect(f.moving()).To(Equal(map[string]string{"x": "seed-m"}))

			f.arrive("x")
			f.clock.Step(time.Hour)
			f.reconcile()
			Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}),
				"the agents measure the last one themselves before it begins")
		})

		It("should ask nobody while nothing may begin, and go by way of no seed without an agent", func() {
			f := inARow(asked("max-hops", "2", "freezes", "2026-11-20T09:00:00Z/2026-11-20T12:00:00Z"))
			measured(f, 0, 0, 0)
			f.reconcile()
			Expect(row(f)).To(Equal("Waiting ChangeFreeze seed-m seed-b"))
			Expect(requests(f)).To(BeEmpty())

			f.changeSeed("seed-a", func(s *gardencorev1beta1.Seed) { delete(s.Annotations, prefix+"freezes") })
			f.changeSeed("seed-m", func(s *gardencorev1beta1.Seed) {
				delete(s.Annotations, seedfacts.AnnotationProbes)
			})
			f.clock.Step(30 * time.Second)
			f.reconcile()
			Expect(row(f)).To(Equal("Blocked RegionsTooDistant"))
			Expect(requests(f)).To(BeEmpty())
		})

		It("should ask again after a while where agents could not find out everything", func() {
			f := inARow(asked("max-hops", "2"))
			measured(f, 60, 70, 0)
			f.changeSeed("seed-b", func(s *gardencorev1beta1.Seed) {
				var probes seedfacts.Probes
				Expect(seedfacts.Of(s, seedfacts.AnnotationProbes, &probes)).To(Succeed())
				probes.Connections[0].Result.Unknown = []string{"images of the control plane"}
				seedlook.Say(s, seedfacts.AnnotationProbes, probes)
			})
			f.reconcile()
			Expect(row(f)).To(Equal("Waiting DistanceNotMeasured seed-m seed-b"))
			Expect(f.table("seed-a")["x"].Message).To(ContainSubstring("images of the control plane"))
			Expect(requests(f)).To(BeEmpty())
			f.clock.Step(2 * time.Minute)
			f.reconcile()
			at := "2026-11-20T10:02:00Z"
			Expect(requests(f)).To(Equal(map[string]string{"seed-m seed-b": at, "seed-b seed-m": at}))
		})

		It("should take no way with a round trip that is too long", func() {
			f := inARow(asked("max-hops", "3"))
			measured(f, 60, 101, 0)
			f.reconcile()
			Expect(row(f)).To(Equal("Blocked RegionsTooDistant"))
			Expect(f.moving()).To(BeEmpty())
		})

		It("should go round a connection that is too slow although the regions are near", func() {
			f := inARow(asked("max-hops", "2"))
			near := distances()
			near.Data["a"] = "m: 100\nb: 100\n"
			Expect(f.Update(context.Background(), near)).To(Succeed())
			measured(f, 60, 70, 130)
			f.reconcile()
			Expect(row(f)).To(Equal("Running Migrating seed-m seed-b"))
		})
	})

	It("should rest on the way when the drain is cancelled, tell where, and continue when it is resumed", func() {
		f := inARow(asked("max-hops", "2"))
		onTheWay(f)
		f.changeSeed("seed-a", cancelled)
		f.reconcile()
		Expect(f.moving()).To(BeEmpty())
		Expect(row(f)).To(Equal("Waiting Cancelled  seed-b"))
		Expect(f.table("seed-a")["x"]).To(And(HaveField("IntermediateSeed", "seed-m"),
			HaveField("Message", HavePrefix("in seed seed-m on its way to seed seed-b"))))
		Expect(f.told()).To(ContainElement(And(HavePrefix("Warning StoppedBetweenSeeds "),
			ContainSubstring("garden-demo/x is in seed seed-m on its way to seed seed-b"))))

		f.restart()
		f.changeSeed("seed-a", asked())
		f.reconcile()
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}))
	})

	It("should let a shoot stay on the way if an operator decides so", func() {
		f := inARow(asked("max-hops", "2"))
		onTheWay(f)
		f.changeSeed("seed-a", cancelled)
		f.reconcile()
		f.changeShoot("x", func(s *gardencorev1beta1.Shoot) { delete(s.Annotations, prefix+"final-destination") })
		f.reconcile()
		_, err := f.configMap("seed-a")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the drain has nothing to tell any more")
		f.changeSeed("seed-a", asked())
		f.reconcile()
		Expect(row(f)).To(Equal("Done Moved seed-m"))
		Expect(f.moving()).To(BeEmpty())
	})

	It("should count the attempts of a migration that the garden refuses on the way, and try again", func() {
		f := inARow(asked("max-hops", "2"))
		onTheWay(f)
		f.refusal = apierrors.NewForbidden(gardencorev1beta1.Resource("shoots"), "x", errors.New("not this one"))
		f.reconcile()
		Expect(row(f)).To(Equal("Waiting RetryLater seed-b"))
		Expect(f.table("seed-a")["x"].IntermediateSeed).To(Equal("seed-m"))
		f.clock.Step(10 * time.Minute)
		f.reconcile()
		Expect(ofDrain(f)).To(And(HaveKeyWithValue(prefix+"attempts", "2"), HaveKeyWithValue(prefix+"hop", "2"),
			HaveKeyWithValue(prefix+"from", "seed-m"), HaveKeyWithValue(prefix+"started-by", "seed-a")))
		f.refusal = nil
		f.clock.Step(10 * time.Minute)
		f.reconcile()
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}))
	})

	It("should stay on the way when the destination is out of reach by now, and not go back", func() {
		f := inARow(asked("max-hops", "2"))
		onTheWay(f)
		f.changeSeed("seed-b", asked())
		f.reconcile()
		Expect(f.moving()).To(BeEmpty())
		Expect(row(f)).To(Equal("Blocked NoCandidate  seed-b"))
		Expect(f.table("seed-a")["x"].Message).To(HavePrefix("in seed seed-m on its way to seed seed-b: "))
		f.changeSeed("seed-b", cancelled)
		f.reconcile()
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}))
	})

	It("should take no more migrations than permitted, also if the way becomes longer on the way", func() {
		f := newGarden(newSeed("seed-a", in("a"), asked("max-hops", "2")), newSeed("seed-m", in("m")),
			newSeed("seed-o", in("o")), newSeed("seed-b", in("b")), newShoot("x", there), distances())
		onTheWay(f)
		longer := distances()
		longer.Data["m"], longer.Data["o"] = "a: 100\no: 100\n", "b: 100\n"
		Expect(f.Update(context.Background(), longer)).To(Succeed())
		f.reconcile()
		Expect(f.moving()).To(BeEmpty())
		Expect(row(f)).To(Equal("Blocked RegionsTooDistant  seed-b"))
		Expect(f.table("seed-a")["x"].Message).To(ContainSubstring(
			"by way of seed seed-o: to permit that, annotate Seed seed-a with " + prefix + "max-hops=3"))
		f.changeSeed("seed-a", asked("max-hops", "3"))
		f.reconcile()
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-o"}))
		Expect(ofDrain(f)).To(HaveKeyWithValue(prefix+"hop", "2"))
	})

	It("should leave a shoot to the drain of the seed in which it is on the way", func() {
		f := inARow(asked("max-hops", "2"))
		onTheWay(f)
		f.changeSeed("seed-m", asked())
		f.reconcile()
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}))
		Expect(ofDrain(f)).To(And(HaveKeyWithValue(prefix+"started-by", "seed-m"), Not(HaveKey(prefix+"hop")),
			Not(HaveKey(prefix+"final-destination"))))
		f.arrive("x")
		f.reconcile()
		Expect(f.table("seed-m")["x"]).To(HaveField("Reason", pure.ReasonMoved))
		Expect(f.table("seed-a")).To(BeEmpty())
	})

	It("should tell the webhook where the chain ends", func() {
		f := inARow(asked("max-hops", "2"))
		notifier := &listener{}
		f.Notices.Notifier = notifier
		f.reconcile()
		f.reconcile()
		f.arrive("x")
		f.reconcile()
		f.reconcile()
		Expect(notifier.notices).To(HaveExactElements(
			And(HaveField("Seed", "seed-a"), HaveField("Destination", "seed-m"),
				HaveField("FinalDestination", "seed-b")),
			And(HaveField("Seed", "seed-m"), HaveField("Destination", "seed-b"),
				HaveField("FinalDestination", "seed-b"))))
		Expect(notifier.notices[0].ID).NotTo(Equal(notifier.notices[1].ID))
		Expect(f.moving()).To(Equal(map[string]string{"x": "seed-b"}))
	})
})
