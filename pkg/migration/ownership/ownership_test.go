// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The table", func() {
	// rank says how far a set has come on its way from the source to the destination.
	rank := map[steps.Holder]int{
		steps.HeldBySource: 0, steps.HeldByBoth: 1, steps.Passed: 1, steps.PassedWhenAsked: 1, steps.LetGo: 1,
		steps.HeldByNobody: 2, steps.Taken: 2, steps.HeldByDestination: 3,
	}

	It("should have an owner for every set and step, begin in the source and never go back", func() {
		for _, set := range ownership.Sets() {
			Expect(set.Owners).To(HaveLen(len(steps.Table())), string(set.Name))
			Expect(set.Sign).NotTo(BeEmpty(), string(set.Name))
			Expect(set.Why).NotTo(BeEmpty(), string(set.Name))
			Expect(set.Owners[0].Permits(steps.Source)).To(BeTrue(), string(set.Name))
			Expect(set.Owners[len(set.Owners)-1].Permits(steps.Source)).To(BeFalse(), "%s is left in the source",
				set.Name)
			for i := 1; i < len(set.Owners); i++ {
				Expect(rank).To(HaveKey(set.Owners[i]))
				Expect(rank[set.Owners[i]]).To(BeNumerically(">=", rank[set.Owners[i-1]]), "%s goes back in step %d",
					set.Name, i+1)
			}
		}
	})

	It("should let a step in which the source lets go lie between its own and the destination's", func() {
		for _, set := range ownership.Sets() {
			for i := 1; i < len(set.Owners); i++ {
				before, after := set.Owners[i-1], set.Owners[i]
				Expect(before == steps.HeldBySource &&
					(after == steps.HeldByDestination || after == steps.Taken || after == steps.HeldByNobody)).
					To(BeFalse(), "%s changes hands between steps %d and %d, and nobody does it", set.Name, i, i+1)
			}
		}
	})

	It("should go through all phases, from before the first step to after the hand-over", func() {
		phases := ownership.Phases()
		Expect(phases).To(HaveLen(len(steps.Table()) + 2))
		Expect(phases[0]).To(Equal(ownership.Before))
		Expect(phases[1].String()).To(Equal("step 1"))
		Expect(phases[len(phases)-1]).To(Equal(ownership.After))
	})

	It("should name a set once", func() {
		var names []steps.Components
		for _, set := range ownership.Sets() {
			Expect(names).NotTo(ContainElement(set.Name))
			names = append(names, set.Name)
		}
	})

	It("should let only what serves run in both seeds", func() {
		Expect(ownership.Exclusive()).To(Equal([]string{
			"kube-controller-manager", "kube-scheduler", "gardener-resource-manager", "machine-controller-manager",
			"cluster-autoscaler",
		}))
		var both []steps.Components
		for _, set := range ownership.Sets() {
			if slices.Contains(set.Owners, steps.HeldByBoth) {
				both = append(both, set.Name)
			}
		}
		Expect(both).To(ConsistOf(steps.VPNServer, steps.KubeAPIServer, steps.Etcd))
	})

	It("should not be changeable by who reads it", func() {
		ownership.Sets()[0].Name = "another"
		_, found := ownership.Get(steps.KubeControllerManager)
		Expect(found).To(BeTrue())
		_, found = ownership.Get("another")
		Expect(found).To(BeFalse())
	})
})

var _ = Describe("PhaseOf", func() {
	conditions := func(finished int, current gardencorev1beta1.ConditionStatus) []gardencorev1beta1.Condition {
		var out []gardencorev1beta1.Condition
		for i, conditionType := range steps.ConditionTypes() {
			status := gardencorev1beta1.ConditionUnknown
			switch {
			case i < finished:
				status = gardencorev1beta1.ConditionTrue
			case i == finished:
				status = current
			}
			out = append(out, gardencorev1beta1.Condition{Type: conditionType, Status: status})
		}
		return out
	}

	DescribeTable("follows the conditions",
		func(conditions []gardencorev1beta1.Condition, handedOver bool, phase ownership.Phase, text string) {
			shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{
				SeedName:      ptr.To("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: conditions},
			}}
			if handedOver {
				shoot.Status.SeedName = ptr.To("seed-b")
			}
			Expect(ownership.PhaseOf(shoot, "seed-b")).To(Equal(phase))
			Expect(phase.String()).To(Equal(text))
		},
		Entry("none", nil, false, ownership.Before, "before step 1"),
		Entry("requested", conditions(0, gardencorev1beta1.ConditionUnknown), false, ownership.Before, "before step 1"),
		Entry("begun", conditions(0, gardencorev1beta1.ConditionProgressing), false, ownership.Phase(0), "step 1"),
		Entry("held before step 4", conditions(3, gardencorev1beta1.ConditionUnknown), false, ownership.Phase(3),
			"step 4"),
		Entry("late in step 7", conditions(6, gardencorev1beta1.ConditionFalse), false, ownership.Phase(6), "step 7"),
		Entry("of the previous migration", conditions(8, ""), false, ownership.Before, "before step 1"),
		Entry("handed over", conditions(8, ""), true, ownership.After, "after the hand-over"),
	)
})

var _ = DescribeTable("Asked", func(step int, reason steps.Reason, asked bool) {
	shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{
		LiveMigration: &gardencorev1beta1.LiveMigration{}}}
	for i, conditionType := range steps.ConditionTypes() {
		condition := gardencorev1beta1.Condition{Type: conditionType, Status: gardencorev1beta1.ConditionUnknown}
		switch {
		case i+1 < step:
			condition.Status = gardencorev1beta1.ConditionTrue
		case i+1 == step:
			condition.Status, condition.Reason = gardencorev1beta1.ConditionProgressing, string(reason)
		}
		shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions, condition)
	}
	Expect(ownership.Asked(shoot)).To(Equal(asked))
},
	Entry("not while controllers stop", 7, steps.ReasonStoppingSourceControlPlane, false),
	Entry("when they have stopped", 7, steps.ReasonSourceControllersStopped, true),
	Entry("when the rest is deleted", 7, steps.ReasonDeletingSourceResources, true),
	Entry("not in another step", 8, steps.ReasonSourceControllersStopped, false),
	Entry("not when all is done", 9, steps.ReasonSourceControllersStopped, false),
)

var _ = Describe("Judge", func() {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	running := func(roles ...steps.Role) map[steps.Role][]string {
		out := map[steps.Role][]string{}
		for _, role := range roles {
			out[role] = []string{"object"}
		}
		return out
	}
	judge := func(set steps.Components, from, to ownership.Phase, roles ...steps.Role) []string {
		var out []string
		for _, violation := range ownership.Judge(ownership.Sample{Time: now, From: from, To: to,
			Running: map[steps.Components]map[steps.Role][]string{set: running(roles...)}}) {
			Expect(violation.Set).To(Equal(set))
			out = append(out, violation.String())
		}
		return out
	}

	DescribeTable("permits", func(set steps.Components, from, to ownership.Phase, roles ...steps.Role) {
		Expect(judge(set, from, to, roles...)).To(BeEmpty())
	},
		Entry("controllers in the source until step 7", steps.MachineControllerManager, ownership.Phase(5),
			ownership.Phase(5), steps.Source),
		Entry("controllers on their way out", steps.MachineControllerManager, ownership.Phase(6), ownership.Phase(6),
			steps.Source),
		Entry("nothing anywhere", steps.MachineControllerManager, ownership.Phase(6), ownership.Phase(6)),
		Entry("controllers in the destination from step 8", steps.KubeControllerManager, ownership.Phase(7),
			ownership.Phase(7), steps.Destination),
		Entry("machine-controller-manager after the hand-over", steps.MachineControllerManager, ownership.After,
			ownership.After, steps.Destination),
		Entry("a start that the first look at the Shoot did not know of", steps.KubeControllerManager,
			ownership.Phase(6), ownership.Phase(7), steps.Destination),
		Entry("a start right after the hand-over", steps.Worker, ownership.Phase(7), ownership.After,
			steps.Destination),
		Entry("two kube-apiservers from step 4", steps.KubeAPIServer, ownership.Phase(3), ownership.Phase(3),
			steps.Source, steps.Destination),
		Entry("two kube-apiservers until step 7", steps.KubeAPIServer, ownership.Phase(6), ownership.Phase(6),
			steps.Source, steps.Destination),
		Entry("two VPN servers", steps.VPNServer, ownership.Phase(4), ownership.Phase(4), steps.Source,
			steps.Destination),
		Entry("members of one etcd in both seeds", steps.Etcd, ownership.Phase(1), ownership.Phase(1), steps.Source,
			steps.Destination),
		Entry("the backup entry here", steps.BackupEntry, ownership.Phase(0), ownership.Phase(0), steps.Source),
		Entry("the backup entry there", steps.BackupEntry, ownership.Phase(0), ownership.Phase(0), steps.Destination),
		Entry("DNS records in the source before anything begins", steps.DNSRecords, ownership.Before,
			ownership.Phase(0), steps.Source),
	)

	DescribeTable("finds", func(set steps.Components, from, to ownership.Phase, text string, roles ...steps.Role) {
		Expect(judge(set, from, to, roles...)).To(ConsistOf(HavePrefix("2026-11-20T12:00:00Z: " + text)))
	},
		Entry("a resource manager in both seeds", steps.ResourceManager, ownership.Phase(6), ownership.Phase(7),
			"gardener-resource-manager was at work in both seeds at the same time between step 7 and step 8 "+
				"(source/object, destination/object)", steps.Source, steps.Destination),
		Entry("the backup entry in both seeds", steps.BackupEntry, ownership.Phase(0), ownership.Phase(1),
			"backupentry was at work in both seeds at the same time", steps.Source, steps.Destination),
		Entry("machine-controller-manager before the hand-over", steps.MachineControllerManager, ownership.Phase(7),
			ownership.Phase(7),
			"machine-controller-manager was at work in the destination between step 8 and step 8 (object)",
			steps.Destination),
		Entry("a controller that starts too early", steps.KubeControllerManager, ownership.Phase(3), ownership.Phase(5),
			"kube-controller-manager was at work in the destination", steps.Destination),
		Entry("a controller that was left behind", steps.ClusterAutoscaler, ownership.Phase(7), ownership.Phase(7),
			"cluster-autoscaler was at work in the source", steps.Source),
		Entry("a kube-apiserver that was left behind", steps.KubeAPIServer, ownership.Phase(7), ownership.After,
			"kube-apiserver was at work in the source", steps.Source),
		Entry("a second kube-apiserver too early", steps.KubeAPIServer, ownership.Phase(2), ownership.Phase(2),
			"kube-apiserver was at work in both seeds at the same time", steps.Source, steps.Destination),
		Entry("two writers of DNS records", steps.DNSRecords, ownership.Phase(4), ownership.Phase(5),
			"dnsrecord was at work in both seeds at the same time", steps.Source, steps.Destination),
		Entry("members of the destination before their step", steps.Etcd, ownership.Before, ownership.Phase(0),
			"etcd was at work in both seeds at the same time", steps.Source, steps.Destination),
	)

	DescribeTable("a set that passes when the source asks for it", func(asked [2]bool, to ownership.Phase,
		permitted bool,
		roles ...steps.Role) {
		violations := ownership.Judge(ownership.Sample{Time: now, From: 6, To: to, AskedFrom: asked[0],
			AskedTo: asked[1],
			Running: map[steps.Components]map[steps.Role][]string{steps.KubeScheduler: running(roles...)}})
		if permitted {
			Expect(violations).To(BeEmpty())
		} else {
			Expect(violations).To(HaveLen(1))
			Expect(violations[0].Overlap).To(Equal(len(roles) == 2))
		}
	},
		Entry("in the source before", [2]bool{false, false}, ownership.Phase(6), true, steps.Source),
		Entry("in the destination before", [2]bool{false, false}, ownership.Phase(6), false, steps.Destination),
		Entry("in the source when it asks", [2]bool{false, true}, ownership.Phase(6), true, steps.Source),
		Entry("in the destination when it asks", [2]bool{false, true}, ownership.Phase(6), true, steps.Destination),
		Entry("in both when it asks", [2]bool{false, true}, ownership.Phase(6), false, steps.Source,
			steps.Destination),
		Entry("in the source afterwards", [2]bool{true, true}, ownership.Phase(6), false, steps.Source),
		Entry("in the destination afterwards", [2]bool{true, true}, ownership.Phase(6), true, steps.Destination),
		Entry("in both afterwards", [2]bool{true, true}, ownership.Phase(6), false, steps.Source, steps.Destination),
		Entry("in the destination in the step after it", [2]bool{true, false}, ownership.Phase(7), true,
			steps.Destination),
		Entry("in the source in the step after it", [2]bool{true, false}, ownership.Phase(7), false, steps.Source),
	)

	DescribeTable("the pods of etcds with one member each", func(phase ownership.Phase, permitted bool) {
		sample := ownership.Sample{Time: now, From: phase, To: phase, OneMember: true,
			Running: map[steps.Components]map[steps.Role][]string{
				steps.Etcd: running(steps.Source, steps.Destination)}}
		Expect(ownership.Judge(sample)).To(HaveLen(map[bool]int{true: 0, false: 1}[permitted]))
		sample.OneMember = false
		Expect(ownership.Judge(sample)).To(HaveLen(map[bool]int{true: 0, false: 1}[permitted && phase < 6]))
	},
		Entry("in both seeds while members move", ownership.Phase(5), true),
		Entry("in both seeds in the step after it, because the member leaves before its pod", ownership.Phase(6), true),
		Entry("in both seeds in the last step", ownership.Phase(7), false),
	)

	It("should tell all that is wrong, in the order of the table", func() {
		violations := ownership.Judge(ownership.Sample{Time: now, From: 7, To: 7,
			Running: map[steps.Components]map[steps.Role][]string{
				steps.Etcd:          running(steps.Source, steps.Destination),
				steps.KubeScheduler: running(steps.Source),
				steps.KubeAPIServer: running(steps.Destination),
			}})
		Expect(violations).To(HaveLen(2))
		Expect(violations[0].Set).To(Equal(steps.KubeScheduler))
		Expect(violations[0].Role).To(Equal(steps.Source))
		Expect(violations[1].Set).To(Equal(steps.Etcd))
		Expect(violations[1].Overlap).To(BeTrue())
	})
})
