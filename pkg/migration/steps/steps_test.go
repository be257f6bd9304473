// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	isTrue        = gardencorev1beta1.ConditionTrue
	isFalse       = gardencorev1beta1.ConditionFalse
	isUnknown     = gardencorev1beta1.ConditionUnknown
	isProgressing = gardencorev1beta1.ConditionProgressing
)

// world returns the conditions of a migration in which the first statuses are as given and all others are Unknown.
func world(statuses ...gardencorev1beta1.ConditionStatus) []gardencorev1beta1.Condition {
	var out []gardencorev1beta1.Condition
	for i, step := range steps.Table() {
		condition := gardencorev1beta1.Condition{Type: step.Condition, Status: isUnknown}
		if i < len(statuses) {
			condition.Status = statuses[i]
		}
		out = append(out, condition)
	}
	return out
}

func allTrue() []gardencorev1beta1.Condition {
	out := world()
	for i := range out {
		out[i].Status = isTrue
	}
	return out
}

func shoot(spec, status *string, intent string, conditions ...gardencorev1beta1.Condition) *gardencorev1beta1.Shoot {
	out := &gardencorev1beta1.Shoot{}
	if intent != "" {
		out.Annotations = map[string]string{steps.AnnotationIntent: intent}
	}
	out.Spec.SeedName, out.Status.SeedName = spec, status
	if conditions != nil {
		out.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: conditions}
	}
	return out
}

var _ = DescribeTable("WithGap", func(annotation string, highlyAvailable, expected bool) {
	s := &gardencorev1beta1.Shoot{}
	s.Annotations = map[string]string{"migration.gardener.cloud/live-migrate-with-gap": annotation}
	if highlyAvailable {
		s.Spec.ControlPlane = &gardencorev1beta1.ControlPlane{HighAvailability: &gardencorev1beta1.HighAvailability{}}
	}
	Expect(steps.WithGap(s)).To(Equal(expected))
	steps.RemoveAnnotations(s)
	Expect(s.Annotations).To(BeEmpty())
},
	Entry("agreed to", "true", false, true),
	Entry("refused", "false", false, false),
	Entry("not said", "", false, false),
	Entry("of a highly available one", "true", true, false),
)

var _ = Describe("Table", func() {
	It("should have the steps of GEP-0039 in their order, with alternating owners as designed", func() {
		var rows []string
		for _, step := range steps.Table() {
			rows = append(rows, string(step.Owner)+" "+step.String())
		}
		Expect(rows).To(Equal([]string{
			"source SourceEtcdPreparedForPeerJoin",
			"destination DestinationEtcdPeersJoined",
			"source MigrateExtensionsNeededBeforeKubeAPIServer",
			"destination DestinationKubeAPIServerReady",
			"source MigrateDNSRecords",
			"destination EtcdMigrationComplete",
			"source SourceSeedCleanup",
			"destination MigrationCompleted",
		}))
		Expect(steps.ConditionTypes()).To(HaveLen(8))
		Expect(steps.First()).To(Equal(steps.Table()[0]))
		Expect(steps.Last()).To(Equal(steps.Table()[7]))
	})

	It("should be sound", func() {
		progress := int32(0)
		abortable := true
		for i, step := range steps.Table() {
			Expect(step.Title).NotTo(BeEmpty())
			Expect(step.Deadline).To(BeNumerically(">", 0))
			Expect(step.Progress).To(BeNumerically(">", progress), "progress must grow")
			progress = step.Progress

			Expect(step.Abortable && !abortable).To(BeFalse(),
				"no step after one that is not abortable may be abortable")
			abortable = step.Abortable
			Expect(step.Abortable && step.PointOfNoReturn).To(BeFalse())

			got, ok := steps.Get(step.Condition)
			Expect(ok).To(BeTrue())
			Expect(got).To(Equal(step))
			Expect(steps.Index(step.Condition)).To(Equal(i))
		}
		Expect(progress).To(Equal(int32(100)))
	})

	It("should not let callers change the table", func() {
		steps.Table()[0].Owner = steps.Destination
		Expect(steps.First().Owner).To(Equal(steps.Source))
	})

	It("should not know other condition types", func() {
		_, ok := steps.Get("Other")
		Expect(ok).To(BeFalse())
		Expect(steps.Index("Other")).To(Equal(-1))
	})
})

var _ = DescribeTable("#Current and #Progress",
	func(conditions []gardencorev1beta1.Condition, current string, unfinished bool, progress int) {
		step, ok := steps.Current(conditions)
		Expect(ok).To(Equal(unfinished))
		Expect(step.String()).To(Equal(current))
		Expect(steps.Progress(conditions)).To(Equal(int32(progress)))
	},
	Entry("nothing yet", nil, "SourceEtcdPreparedForPeerJoin", true, 0),
	Entry("just initialized", world(), "SourceEtcdPreparedForPeerJoin", true, 0),
	Entry("first in progress", world(isProgressing), "SourceEtcdPreparedForPeerJoin", true, 0),
	Entry("first done", world(isTrue), "DestinationEtcdPeersJoined", true, 10),
	Entry("second overdue", world(isTrue, isFalse), "DestinationEtcdPeersJoined", true, 10),
	Entry("a later one True does not count", world(isTrue, isProgressing, isTrue), "DestinationEtcdPeersJoined", true,
		10),
	Entry("a missing one is the current one", world(isTrue, isTrue)[:2], "MigrateExtensionsNeededBeforeKubeAPIServer",
		true, 30),
	Entry("all done", allTrue(), "", false, 100),
)

var _ = DescribeTable("#Seeds, #Requested and #RoleOf",
	func(spec, status *string, intent string, requested bool, roleA, roleB steps.Role) {
		s := shoot(spec, status, intent)
		Expect(steps.Requested(s)).To(Equal(requested))
		role, ok := steps.RoleOf(s, "a")
		Expect(role).To(Equal(roleA))
		Expect(ok).To(Equal(roleA != ""))
		role, ok = steps.RoleOf(s, "b")
		Expect(role).To(Equal(roleB))
		Expect(ok).To(Equal(roleB != ""))
		_, ok = steps.RoleOf(s, "c")
		Expect(ok).To(BeFalse())
	},
	Entry("from a to b", ptr.To("b"), ptr.To("a"), "true", true, steps.Source, steps.Destination),
	Entry("from b to a", ptr.To("a"), ptr.To("b"), "true", true, steps.Destination, steps.Source),
	Entry("another spelling of true", ptr.To("b"), ptr.To("a"), "1", true, steps.Source, steps.Destination),
	Entry("without the intent", ptr.To("b"), ptr.To("a"), "", false, steps.Role(""), steps.Role("")),
	Entry("intent false", ptr.To("b"), ptr.To("a"), "false", false, steps.Role(""), steps.Role("")),
	Entry("intent nonsense", ptr.To("b"), ptr.To("a"), "yes please", false, steps.Role(""), steps.Role("")),
	Entry("not on the way", ptr.To("a"), ptr.To("a"), "true", false, steps.Role(""), steps.Role("")),
	Entry("not scheduled", nil, nil, "true", false, steps.Role(""), steps.Role("")),
	Entry("not created", ptr.To("b"), nil, "true", false, steps.Role(""), steps.Role("")),
	Entry("spec empty", nil, ptr.To("a"), "true", false, steps.Role(""), steps.Role("")),
	Entry("names empty", ptr.To(""), ptr.To("a"), "true", false, steps.Role(""), steps.Role("")),
)

var _ = DescribeTable("#Initialized and #InFlight",
	func(conditions []gardencorev1beta1.Condition, initialized, inFlight bool) {
		Expect(steps.Initialized(conditions)).To(Equal(initialized))
		Expect(steps.InFlight(shoot(ptr.To("b"), ptr.To("a"), "true", conditions...))).To(Equal(inFlight))
		Expect(steps.InFlight(shoot(ptr.To("a"), ptr.To("a"), "true", conditions...))).To(BeFalse())
		Expect(steps.InFlight(shoot(ptr.To("b"), ptr.To("a"), "", conditions...))).To(BeFalse())
	},
	Entry("no conditions", nil, false, false),
	Entry("those of the previous migration", allTrue(), false, false),
	Entry("one is missing", world(isTrue)[:7], false, false),
	Entry("not begun", world(), true, false),
	Entry("begun", world(isProgressing), true, true),
	Entry("overdue in the first step", world(isFalse), true, true),
	Entry("later", world(isTrue, isTrue, isProgressing), true, true),
)

var _ = Describe("#PausedBefore", func() {
	It("should hold a step that has not begun, and only the named one", func() {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", world(isTrue)...)
		s.Annotations[steps.AnnotationPauseBefore] = "DestinationEtcdPeersJoined"
		Expect(steps.PausedBefore(s, steps.Table()[1])).To(BeTrue())
		Expect(steps.PausedBefore(s, steps.Table()[2])).To(BeFalse())

		s.Status.LiveMigration.Conditions = world(isTrue, isProgressing)
		Expect(steps.PausedBefore(s, steps.Table()[1])).To(BeFalse())
	})
})

var _ = DescribeTable("#AssistDue",
	func(index int, status gardencorev1beta1.ConditionStatus, reason steps.Reason, role steps.Role, due bool) {
		conditions := allTrue()
		conditions[index].Status, conditions[index].Reason = status, string(reason)
		Expect(steps.AssistDue(conditions, steps.Table()[index], role)).To(Equal(due))
		asked := steps.Reason("")
		if due {
			asked = reason
		}
		Expect(steps.AskedFor(conditions, steps.Table()[index], role)).To(Equal(asked))
	},
	Entry("the destination asks, the source is due", 5, isProgressing, steps.ReasonReadyForSourceMemberRemoval,
		steps.Source, true),
	Entry("the destination asks for another part", 5, isProgressing, steps.ReasonDrainingClients, steps.Source, true),
	Entry("it still asks when overdue", 5, isFalse, steps.ReasonReadyForSourceMemberRemoval, steps.Source, true),
	Entry("the owner does not assist itself", 5, isProgressing, steps.ReasonReadyForSourceMemberRemoval,
		steps.Destination, false),
	Entry("not asked yet", 5, isProgressing, steps.ReasonJoiningLastEtcdMember, steps.Source, false),
	Entry("finished", 5, isTrue, steps.ReasonReadyForSourceMemberRemoval, steps.Source, false),
	Entry("not begun", 5, isUnknown, steps.ReasonReadyForSourceMemberRemoval, steps.Source, false),
	Entry("a step that does not ask for that part", 3, isProgressing, steps.ReasonDrainingClients, steps.Source, false),
	Entry("a step without a part of the peer", 1, isProgressing, steps.ReasonReadyForSourceMemberRemoval, steps.Source,
		false),
	Entry("the source asks the destination to prepare before its turn", 0, isProgressing,
		steps.ReasonShootStatePersisted, steps.Destination, true),
	Entry("not when the ShootState is not persisted", 0, isProgressing, steps.ReasonPersistingShootState,
		steps.Destination, false),
	Entry("not when the source has finished", 0, isTrue, steps.ReasonShootStatePersisted, steps.Destination, false),
	Entry("a step without a part of the peer and no reason", 1, isProgressing, steps.Reason(""), steps.Source, false),
)

var _ = Describe("#CheckTransition", func() {
	It("should allow exactly the legal changes of the current step's status", func() {
		statuses := []gardencorev1beta1.ConditionStatus{isUnknown, isProgressing, isFalse, isTrue}
		var legal []string
		for _, from := range statuses[:3] {
			for _, to := range statuses {
				if steps.CheckTransition(world(isTrue, from), steps.Table()[1], steps.Destination, to) == nil {
					legal = append(legal, string(from)+" > "+string(to))
				}
			}
		}
		Expect(legal).To(Equal([]string{
			"Unknown > Unknown", "Unknown > Progressing", "Unknown > True",
			"Progressing > Progressing", "Progressing > False", "Progressing > True",
			"False > False", "False > True",
		}))
	})

	It("should refuse the peer, other steps, and finished migrations", func() {
		Expect(steps.CheckTransition(world(isTrue), steps.Table()[1], steps.Source, isProgressing)).
			To(MatchError(ContainSubstring("written by the destination only")))
		Expect(steps.CheckTransition(world(isTrue), steps.Table()[3], steps.Destination, isProgressing)).
			To(MatchError(ContainSubstring("the current step is DestinationEtcdPeersJoined")))
		Expect(steps.CheckTransition(world(isTrue), steps.Table()[0], steps.Source, isProgressing)).
			To(MatchError(ContainSubstring("the current step is")))
		Expect(steps.CheckTransition(allTrue(), steps.Table()[7], steps.Destination, isTrue)).
			To(MatchError(ContainSubstring("all steps are finished")))
	})

	It("should take a missing condition for one that is Unknown", func() {
		Expect(steps.CheckTransition(nil, steps.Table()[0], steps.Source, isProgressing)).To(Succeed())
	})
})

var _ = Describe("#StartedAt", func() {
	It("should read the start from the conditions", func() {
		t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		conditions := world(isTrue, isProgressing)
		conditions[0].LastTransitionTime = metav1.NewTime(t0)
		conditions[1].LastTransitionTime = metav1.NewTime(t0.Add(time.Minute))
		Expect(steps.StartedAt(conditions, steps.Table()[1])).To(Equal(t0.Add(time.Minute)))

		conditions[1].Status = isFalse
		Expect(steps.StartedAt(conditions, steps.Table()[1])).To(Equal(t0))
		conditions[1].Status = isUnknown
		Expect(steps.StartedAt(conditions, steps.Table()[1])).To(BeZero())
		Expect(steps.StartedAt(nil, steps.Table()[1])).To(BeZero())
		conditions[0].Status = isFalse
		Expect(steps.StartedAt(conditions, steps.Table()[0])).To(BeZero())
	})
})

var _ = Describe("Outcome", func() {
	It("should tell a finished step from one that continues", func() {
		Expect(steps.Done("%d members", 5)).
			To(Equal(steps.Outcome{Status: isTrue, Reason: steps.ReasonCompleted, Message: "5 members"}))
		Expect(steps.Done("").Finished()).To(BeTrue())
		waiting := steps.Waiting(time.Second, steps.ReasonWaitingForDNS, "until %s", "noon")
		Expect(waiting).To(Equal(steps.Outcome{Status: isProgressing, Reason: steps.ReasonWaitingForDNS,
			Message: "until noon", RequeueAfter: time.Second}))
		Expect(waiting.Finished()).To(BeFalse())
	})

	It("should tell faults from waits", func() {
		Expect(steps.ReasonActionFailed.Fault()).To(BeTrue())
		Expect(steps.ReasonWaitingForDNS.Fault()).To(BeFalse())
		Expect(steps.ReasonPaused.Fault()).To(BeFalse())
	})
})

var _ = Describe("Role", func() {
	It("should know its peer", func() {
		Expect(steps.Source.Peer()).To(Equal(steps.Destination))
		Expect(steps.Destination.Peer()).To(Equal(steps.Source))
	})
})
