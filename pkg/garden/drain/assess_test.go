// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/seedlook"
)

// The time is 10:00.
var _ = Describe("Assessment", func() {
	var (
		row = func(f *fakeGarden, name string) string {
			GinkgoHelper()
			row := f.table("seed-a")[name]
			return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", row.State, row.Reason, row.Way, row.Destination))
		}
		old       = func(s *gardencorev1beta1.Seed) { s.Status.Gardener.Version = "v1.149.0" }
		elsewhere = func(s *gardencorev1beta1.Seed) { s.Spec.DNS.Internal.Domain = "internal.elsewhere.example" }
		unseen    = func(s *gardencorev1beta1.Seed) {
			delete(s.Annotations, seedfacts.AnnotationClusterDNS)
			delete(s.Annotations, seedfacts.AnnotationDNSAccess)
		}
		kubeDNS = func(s *gardencorev1beta1.Seed) {
			seedlook.Say(s, seedfacts.AnnotationClusterDNS, seedfacts.ClusterDNS{Problem: "it does not know it"})
		}
		far     = func(s *gardencorev1beta1.Seed) { s.Spec.Provider.Region = "far" }
		workers = func(s *gardencorev1beta1.Shoot) {
			s.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "one"}}
			s.Spec.Networking = &gardencorev1beta1.Networking{Nodes: new("10.0.0.0/16")}
		}
		refusing = func(s *gardencorev1beta1.Shoot) {
			workers(s)
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, steps.AnnotationWithWorkers, "false")
		}
		saysOfWorkers = func(value string) func(*gardencorev1beta1.Seed) {
			return func(s *gardencorev1beta1.Seed) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, seedfacts.AnnotationWorkers, value)
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, seedfacts.AnnotationTLSTermination, "true")
			}
		}
		keepsTLS = func(s *gardencorev1beta1.Seed) {
			saysOfWorkers("true")(s)
			s.Annotations[seedfacts.AnnotationTLSTermination] = "false"
		}
		sixth = func(s *gardencorev1beta1.Seed) {
			s.Spec.Networks.IPFamilies = []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv6}
		}
		private       = func(s *gardencorev1beta1.Shoot) { s.Spec.ExposureClassName = new("private") }
		hosting       = func(s *gardencorev1beta1.Shoot) { s.Status.ClusterIdentity = new("cluster-x") }
		hosted        = func(s *gardencorev1beta1.Seed) { s.Status.ClusterIdentity = new("cluster-x") }
		exposureClass = &gardencorev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: "private"},
			Handler: "intranet"}
		handles = func(value string) func(*gardencorev1beta1.Seed) {
			return func(s *gardencorev1beta1.Seed) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, seedfacts.AnnotationExposureClassHandlers, value)
			}
		}
		bastion = &operationsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"},
			Spec: operationsv1alpha1.BastionSpec{ShootRef: corev1.LocalObjectReference{Name: "x"}}}
	)

	DescribeTable("where a shoot goes, or why it stays", func(expected string, source func(*gardencorev1beta1.Seed),
		shoot func(*gardencorev1beta1.Shoot), others ...client.Object) {
		f := newGarden(append(others, newSeed("seed-a", asked(), source), newShoot("x", shoot))...)
		f.reconcile()
		Expect(row(f, "x")).To(Equal(expected))
	},
		Entry("live", "Running Migrating Live seed-b", none[*gardencorev1beta1.Seed], none[*gardencorev1beta1.Shoot],
			newSeed("seed-b")),
		Entry("to the seed with the fewest shoots", "Running Migrating Live seed-c", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot],
			newSeed("seed-b"), newSeed("seed-c"),
			newShoot("there", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SeedName, s.Status.SeedName = new("seed-b"), new("seed-b")
			})),
		Entry("not to a seed that is drained itself", "Running Migrating Live seed-c", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot],
			newSeed("seed-b", asked()), newSeed("seed-c"),
			newShoot("there", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SeedName, s.Status.SeedName = new("seed-c"), new("seed-c")
			})),
		Entry("not to a seed that fails a prerequisite while another does not", "Running Migrating Live seed-c",
			none[*gardencorev1beta1.Seed], none[*gardencorev1beta1.Shoot],
			newSeed("seed-b", old), newSeed("seed-c"),
			newShoot("there", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SeedName, s.Status.SeedName = new("seed-c"), new("seed-c")
			})),

		Entry("not to a seed whose cluster DNS ignores EndpointSlices, while another one's does not",
			"Running Migrating Live seed-c", none[*gardencorev1beta1.Seed], none[*gardencorev1beta1.Shoot],
			newSeed("seed-b", kubeDNS), newSeed("seed-c"),
			newShoot("there", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SeedName, s.Status.SeedName = new("seed-c"), new("seed-c")
			})),
		Entry("out of a seed whose cluster DNS ignores EndpointSlices", "Blocked ClusterDNSUnfit", kubeDNS,
			none[*gardencorev1beta1.Shoot], newSeed("seed-b"), newSeed("seed-c")),
		Entry("not to a seed that nobody has looked at", "Blocked PrerequisitesUnknown", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot], newSeed("seed-b", unseen), newSeed("seed-c", unseen)),
		Entry("classic asks nobody who looks at seeds", "Running Migrating Classic seed-b",
			asked("fallback", "classic"), func(s *gardencorev1beta1.Shoot) { single(s); window(9)(s) },
			newSeed("seed-b", unseen)),

		Entry("no other seed", "Blocked NoCandidate", none[*gardencorev1beta1.Seed], none[*gardencorev1beta1.Shoot]),
		Entry("all others are drained", "Blocked NoCandidate", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot], newSeed("seed-b", asked())),
		Entry("all others are full", "Blocked NoCandidate", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot],
			newSeed("seed-b", func(s *gardencorev1beta1.Seed) {
				s.Status.Allocatable = corev1.ResourceList{gardencorev1beta1.ResourceShoots: resource.MustParse("0")}
			})),
		Entry("all others fail the same prerequisite", "Blocked VersionSkew", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot], newSeed("seed-b", old), newSeed("seed-c", old)),
		Entry("all others fail different ones", "Blocked NoCandidate", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot], newSeed("seed-b", old), newSeed("seed-c", elsewhere)),

		Entry("not highly available", "Blocked NotHighlyAvailable", none[*gardencorev1beta1.Seed], single,
			newSeed("seed-b")),
		Entry("not highly available, and a gap is permitted, within its window", "Running Migrating LiveWithGap seed-b",
			none[*gardencorev1beta1.Seed], func(s *gardencorev1beta1.Shoot) { single(s); withGap(s); window(9)(s) },
			newSeed("seed-b")),
		Entry("not highly available, and a gap is permitted, outside of its window",
			"Waiting WaitingForMaintenanceWindow LiveWithGap seed-b", none[*gardencorev1beta1.Seed],
			func(s *gardencorev1beta1.Shoot) { single(s); withGap(s); window(20)(s) }, newSeed("seed-b")),
		Entry("not highly available, and a gap is better than classic", "Running Migrating LiveWithGap seed-b",
			asked("fallback", "classic"), func(s *gardencorev1beta1.Shoot) { single(s); withGap(s); window(9)(s) },
			newSeed("seed-b")),
		Entry("highly available, whatever gap is permitted", "Running Migrating Live seed-b",
			none[*gardencorev1beta1.Seed], withGap, newSeed("seed-b")),
		Entry("hibernated, at any time", "Running Migrating ClassicWhileHibernated seed-b",
			none[*gardencorev1beta1.Seed], func(s *gardencorev1beta1.Shoot) { hibernated(s); window(20)(s) },
			newSeed("seed-b")),
		Entry("hibernated and not highly available", "Running Migrating ClassicWhileHibernated seed-b",
			none[*gardencorev1beta1.Seed], func(s *gardencorev1beta1.Shoot) { hibernated(s); single(s) },
			newSeed("seed-b")),
		Entry("hibernated and with workers", "Running Migrating ClassicWhileHibernated seed-b",
			none[*gardencorev1beta1.Seed], func(s *gardencorev1beta1.Shoot) { hibernated(s); workers(s) },
			newSeed("seed-b")),
		Entry("hibernated, and nobody looks at the seeds", "Running Migrating ClassicWhileHibernated seed-b",
			none[*gardencorev1beta1.Seed], hibernated, newSeed("seed-b", unseen)),
		Entry("hibernated, but it has to stay", "Blocked ShootHibernated", asked("hibernated", "stay"), hibernated,
			newSeed("seed-b")),
		Entry("hibernated, but it does not reconcile", "Blocked ShootNotReconciled", none[*gardencorev1beta1.Seed],
			func(s *gardencorev1beta1.Shoot) { hibernated(s); s.Status.LastOperation.State = "Error" },
			newSeed("seed-b")),
		Entry("hibernated, but with a Bastion", "Blocked BastionExists", none[*gardencorev1beta1.Seed], hibernated,
			newSeed("seed-b"), bastion.DeepCopy()),
		Entry("hibernated, but no seed has the same gardenlet", "Blocked VersionSkew",
			none[*gardencorev1beta1.Seed], hibernated, newSeed("seed-b", old)),
		Entry("hibernated, but no seed has a backup", "Blocked BackupNotReady", none[*gardencorev1beta1.Seed],
			hibernated, newSeed("seed-b", func(s *gardencorev1beta1.Seed) { s.Spec.Backup = nil })),
		Entry("hibernated, but no seed has its internal domain", "Blocked InternalDomainsDiffer",
			none[*gardencorev1beta1.Seed], hibernated, newSeed("seed-b", elsewhere)),
		Entry("on its way into hibernation", "Waiting Hibernating", none[*gardencorev1beta1.Seed],
			func(s *gardencorev1beta1.Shoot) { hibernated(s); s.Status.IsHibernated = false }, newSeed("seed-b")),
		Entry("on its way into hibernation, which Gardener repeats", "Waiting Hibernating",
			none[*gardencorev1beta1.Seed], func(s *gardencorev1beta1.Shoot) {
				hibernated(s)
				s.Status.IsHibernated, s.Status.LastOperation.State = false, "Error"
			}, newSeed("seed-b")),
		Entry("on its way into hibernation, which Gardener has given up", "Blocked PrerequisitesNotMet",
			none[*gardencorev1beta1.Seed], func(s *gardencorev1beta1.Shoot) {
				hibernated(s)
				s.Status.IsHibernated, s.Status.LastOperation.State = false, "Failed"
			}, newSeed("seed-b")),
		Entry("on its way into hibernation, where it has to stay", "Blocked ShootHibernated",
			asked("hibernated", "stay"),
			func(s *gardencorev1beta1.Shoot) { hibernated(s); s.Status.IsHibernated = false }, newSeed("seed-b")),
		Entry("waking up", "Waiting WakingUp", asked("hibernated", "stay"),
			func(s *gardencorev1beta1.Shoot) { hibernated(s); *s.Spec.Hibernation.Enabled = false },
			newSeed("seed-b")),
		Entry("with workers", "Running Migrating Live seed-b", saysOfWorkers("true"), workers,
			newSeed("seed-b", saysOfWorkers("true"))),
		Entry("with workers, to the seed whose agent permits them", "Running Migrating Live seed-c",
			saysOfWorkers("true"), workers, newSeed("seed-b", saysOfWorkers("false")),
			newSeed("seed-c", saysOfWorkers("true"))),
		Entry("with workers, not to a seed whose gateway treats clients in another way",
			"Blocked TLSTerminationDiffers", saysOfWorkers("true"), workers, newSeed("seed-b", keepsTLS)),
		Entry("with workers that no other agent permits", "Blocked WorkersNotSupported", saysOfWorkers("true"), workers,
			newSeed("seed-b", saysOfWorkers("false"))),
		Entry("with workers that its own agent does not permit", "Blocked WorkersNotSupported", saysOfWorkers("false"),
			workers, newSeed("seed-b", saysOfWorkers("true"))),
		Entry("with workers, of which no agent has said anything", "Blocked PrerequisitesUnknown",
			none[*gardencorev1beta1.Seed], workers, newSeed("seed-b")),
		Entry("with workers that their users do not let go live", "Blocked WorkersNotSupported", saysOfWorkers("true"),
			refusing, newSeed("seed-b", saysOfWorkers("true"))),
		Entry("with a Bastion", "Blocked BastionExists", none[*gardencorev1beta1.Seed], none[*gardencorev1beta1.Shoot],
			newSeed("seed-b"), bastion.DeepCopy()),
		Entry("a seed itself", "Blocked ManagedSeedNotSupported", none[*gardencorev1beta1.Seed],
			func(s *gardencorev1beta1.Shoot) { s.Namespace = "garden" }, newSeed("seed-b"),
			&seedmanagementv1alpha1.ManagedSeed{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "x"},
				Spec: seedmanagementv1alpha1.ManagedSeedSpec{Shoot: &seedmanagementv1alpha1.Shoot{Name: "x"}}}),
		Entry("to the seed that handles its ExposureClass", "Running Migrating Live seed-c",
			none[*gardencorev1beta1.Seed], private, newSeed("seed-b", handles("[]")),
			newSeed("seed-c", handles(`["intranet"]`)), exposureClass.DeepCopy(),
			newShoot("there", func(s *gardencorev1beta1.Shoot) {
				s.Spec.SeedName, s.Status.SeedName = new("seed-c"), new("seed-c")
			})),
		Entry("no seed handles its ExposureClass", "Blocked ExposureClassNotHandled", none[*gardencorev1beta1.Seed],
			private, newSeed("seed-b", handles("[]")), newSeed("seed-c", handles("[]")), exposureClass.DeepCopy()),
		Entry("nobody says who handles its ExposureClass", "Blocked PrerequisitesUnknown",
			none[*gardencorev1beta1.Seed], private, newSeed("seed-b"), exposureClass.DeepCopy()),
		Entry("no seed has its IP families", "Blocked IPFamiliesDiffer", none[*gardencorev1beta1.Seed],
			none[*gardencorev1beta1.Shoot], newSeed("seed-b", sixth)),
		Entry("a seed that somebody has set up by hand", "Blocked ManagedSeedNotSupported",
			none[*gardencorev1beta1.Seed], hosting,
			newSeed("seed-b"),
			newSeed("in-it", hosted)),
		Entry("not reconciled", "Blocked ShootNotReconciled", none[*gardencorev1beta1.Seed],
			func(s *gardencorev1beta1.Shoot) { s.Status.LastOperation.State = "Error" }, newSeed("seed-b")),

		Entry("classic, within its window", "Running Migrating Classic seed-b", asked("fallback", "classic"),
			func(s *gardencorev1beta1.Shoot) { single(s); window(9)(s) }, newSeed("seed-b")),
		Entry("classic, outside of its window", "Waiting WaitingForMaintenanceWindow Classic seed-b",
			asked("fallback", "classic"), func(s *gardencorev1beta1.Shoot) { single(s); window(20)(s) },
			newSeed("seed-b")),
		Entry("classic, hibernated where it has to stay otherwise", "Running Migrating Classic seed-b",
			asked("fallback", "classic", "hibernated", "stay"),
			func(s *gardencorev1beta1.Shoot) { hibernated(s); window(9)(s) }, newSeed("seed-b")),
		Entry("classic, hibernated, and the fallback is permitted too",
			"Running Migrating ClassicWhileHibernated seed-b", asked("fallback", "classic"),
			func(s *gardencorev1beta1.Shoot) { hibernated(s); window(20)(s) }, newSeed("seed-b")),
		Entry("classic asks for equal versions: Gardener would hold it", "Blocked VersionSkew",
			asked("fallback", "classic"), func(s *gardencorev1beta1.Shoot) { single(s); window(9)(s) },
			newSeed("seed-b", old)),
		Entry("classic does not ask for equal IP families", "Running Migrating Classic seed-b",
			asked("fallback", "classic"), func(s *gardencorev1beta1.Shoot) { single(s); window(9)(s) },
			newSeed("seed-b", sixth)),
		Entry("classic asks for a handler of the ExposureClass, too", "Blocked ExposureClassNotHandled",
			asked("fallback", "classic"), func(s *gardencorev1beta1.Shoot) { single(s); window(9)(s); private(s) },
			newSeed("seed-b", handles("[]")), exposureClass.DeepCopy()),
		Entry("classic, but the fallback is another word", "Blocked SettingsInvalid",
			asked("fallback", "true"), func(s *gardencorev1beta1.Shoot) { single(s); window(9)(s) }, newSeed("seed-b")),
		Entry("hibernated, and what was meant for such shoots is another word", "Blocked SettingsInvalid",
			asked("hibernated", "Stay"), hibernated, newSeed("seed-b")),
		Entry("half way into hibernation waits", "Waiting Hibernating", asked("fallback", "classic"),
			func(s *gardencorev1beta1.Shoot) { hibernated(s); window(9)(s); s.Status.IsHibernated = false },
			newSeed("seed-b")),
		Entry("classic, but with a Bastion", "Blocked BastionExists", asked("fallback", "classic"),
			func(s *gardencorev1beta1.Shoot) { single(s); window(9)(s) }, newSeed("seed-b"), bastion.DeepCopy()),
		Entry("highly available ones never go classically", "Blocked VersionSkew", asked("fallback", "classic"),
			window(9), newSeed("seed-b", old)),
		Entry("workers alone are no reason to go classically", "Blocked WorkersNotSupported",
			asked("fallback", "classic"), func(s *gardencorev1beta1.Shoot) { refusing(s); window(9)(s) },
			newSeed("seed-b")),
	)

	DescribeTable("a hibernated shoot that wakes up by its schedule", func(expected, until string, starts ...string) {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x", hibernated,
			func(s *gardencorev1beta1.Shoot) {
				for _, start := range starts {
					schedule := gardencorev1beta1.HibernationSchedule{End: &start}
					if hibernate, ok := strings.CutPrefix(start, "hibernate "); ok {
						schedule = gardencorev1beta1.HibernationSchedule{Start: &hibernate}
					}
					s.Spec.Hibernation.Schedules = append(s.Spec.Hibernation.Schedules, schedule)
				}
			}))
		f.reconcile()
		Expect(row(f, "x")).To(Equal(expected))
		Expect(f.table("seed-a")["x"].Until).To(Equal(until))
	},
		Entry("tomorrow", "Running Migrating ClassicWhileHibernated seed-b", "", "0 8 * * *"),
		Entry("in more than an hour", "Running Migrating ClassicWhileHibernated seed-b", "", "1 11 * * *"),
		Entry("in an hour", "Waiting WakeUpDue ClassicWhileHibernated seed-b", "2026-11-20T11:00:00Z", "0 11 * * *"),
		Entry("in an hour by one of two", "Waiting WakeUpDue ClassicWhileHibernated seed-b", "2026-11-20T10:40:00Z",
			"0 11 * * *", "40 10 * * *"),
		Entry("just now", "Waiting WakeUpDue ClassicWhileHibernated seed-b", "2026-11-20T10:03:00Z", "58 9 * * *"),
		Entry("a while ago, and it has not", "Running Migrating ClassicWhileHibernated seed-b", "", "54 9 * * *"),
		Entry("never: it only goes into hibernation then", "Running Migrating ClassicWhileHibernated seed-b", "",
			"hibernate 30 10 * * *"),
		Entry("nobody can read when", "Running Migrating ClassicWhileHibernated seed-b", "", "at noon"),
	)

	It("should look again at a shoot that has woken up", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x", hibernated,
			func(s *gardencorev1beta1.Shoot) {
				s.Spec.Hibernation.Schedules = []gardencorev1beta1.HibernationSchedule{{End: new("30 10 * * *")}}
			}))
		f.reconcile()
		Expect(row(f, "x")).To(Equal("Waiting WakeUpDue ClassicWhileHibernated seed-b"))
		f.clock.Step(30 * time.Minute)
		f.changeShoot("x", func(s *gardencorev1beta1.Shoot) { *s.Spec.Hibernation.Enabled = false })
		f.reconcile()
		Expect(row(f, "x")).To(Equal("Waiting WakingUp"))
		f.changeShoot("x", func(s *gardencorev1beta1.Shoot) { s.Status.IsHibernated = false })
		f.reconcile()
		Expect(row(f, "x")).To(Equal("Running Migrating Live seed-b"))
	})

	It("should name what each seed lacks", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b", old), newSeed("seed-c", elsewhere), newShoot("x"))
		f.reconcile()
		Expect(f.table("seed-a")["x"].Message).To(And(ContainSubstring("seed-b: "), ContainSubstring("v1.149.0"),
			ContainSubstring("seed-c: "), ContainSubstring("internal.elsewhere.example")))
	})

	DescribeTable("should keep shoots where an answer is missing", func(list string) {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b"), newShoot("x"))
		f.failure["list "+list] = errors.New("not permitted")
		f.reconcile()
		Expect(row(f, "x")).To(Equal("Blocked PrerequisitesUnknown"))
		Expect(f.table("seed-a")["x"].Message).To(ContainSubstring("not permitted"))
	},
		Entry("Bastions", "*v1alpha1.BastionList"),
		Entry("ManagedSeeds", "*v1alpha1.ManagedSeedList"),
	)

	Describe("in another region", func() {
		distances := func(n int) *corev1.ConfigMap {
			return &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "garden", Name: "distances",
					Labels:      map[string]string{"scheduling.gardener.cloud/purpose": "region-config"},
					Annotations: map[string]string{"scheduling.gardener.cloud/cloudprofiles": "local"},
				},
				Data: map[string]string{"region": fmt.Sprintf("far: %d", n)},
			}
		}

		DescribeTable("distances", func(strategy string, distance int, expected string) {
			f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b", far), newShoot("x"), distances(distance))
			f.Strategy = strategy
			f.reconcile()
			Expect(row(f, "x")).To(Equal(expected))
		},
			Entry("not looked at by default", "SameRegion", 10, "Blocked NoCandidate"),
			Entry("near enough", "MinimalDistance", 10, "Running Migrating Live seed-b"),
			Entry("too far", "MinimalDistance", 500, "Blocked RegionsTooDistant"),
		)
	})

	It("should be remembered for a while, as long as nothing changes that it was made from", func() {
		f := newGarden(newSeed("seed-a", asked()), newSeed("seed-b", old), newShoot("x"))
		looks := func() int {
			before := f.projects
			f.reconcile()
			return f.projects - before
		}
		Expect(looks()).To(BeNumerically(">", 0))
		Expect(looks()).To(BeZero())

		f.changeShoot("x", func(s *gardencorev1beta1.Shoot) { s.Labels = map[string]string{"a": "b"} })
		Expect(looks()).To(BeNumerically(">", 0))
		f.changeSeed("seed-a", asked("fallback", "classic"))
		Expect(looks()).To(BeNumerically(">", 0))
		f.changeSeed("seed-b", asked())
		Expect(looks()).To(BeNumerically(">", 0))
		Expect(row(f, "x")).To(Equal("Blocked NoCandidate"))
		f.changeSeed("seed-b", cancelled)
		Expect(looks()).To(BeNumerically(">", 0))

		f.clock.Step(29 * time.Second)
		Expect(looks()).To(BeZero())
		f.clock.Step(time.Second)
		Expect(looks()).To(BeNumerically(">", 0))
	})

	It("should know when a window opens that was open today", func() {
		f := newGarden(newSeed("seed-a", asked("windows", "maintenance")), newSeed("seed-b"), newShoot("x", window(7)))
		f.reconcile()
		Expect(row(f, "x")).To(Equal("Waiting WaitingForMaintenanceWindow Live seed-b"))
		Expect(f.table("seed-a")["x"].Until).To(Equal("2026-11-21T07:00:00Z"))
	})

	It("should know at every look whether the maintenance window is open", func() {
		f := newGarden(newSeed("seed-a", asked("fallback", "classic")), newSeed("seed-b"),
			newShoot("x", single, window(11)))
		f.Period = 24 * time.Hour
		f.reconcile()
		Expect(row(f, "x")).To(Equal("Waiting WaitingForMaintenanceWindow Classic seed-b"))
		Expect(f.table("seed-a")["x"].Until).To(Equal("2026-11-20T11:00:00Z"))
		f.clock.Step(90 * time.Minute)
		f.reconcile()
		Expect(row(f, "x")).To(Equal("Running Migrating Classic seed-b"))
	})
})

func none[T any](T) {}
