// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort_test

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/inventory"
	"github.com/livecpm/livecpm/test/abort"
	"github.com/livecpm/livecpm/test/patience"
)

func TestAbort(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience.Eventually)
	RunSpecs(t, "Test Abort Suite")
}

var _ = Describe("State", func() {
	state := func() *abort.State {
		return &abort.State{
			Objects: map[string][]inventory.Object{
				"seed-a": {{Resource: "pods", Namespace: "ns", Name: "etcd-main-0", UID: "1"},
					{Resource: "clusters", Name: "ns", UID: "2", Generation: 1},
					{Resource: "poddisruptionbudgets", Namespace: "ns", Name: "etcd-main", UID: "3", Generation: 1},
					{Resource: "dnsrecords", Namespace: "ns", Name: "live-internal", UID: "4", Generation: 1}},
				"seed-b": nil,
			},
			Restored: map[string][]string{"seed-a": {"DNSRecord live-internal [{ttl: 120}]",
				"PodDisruptionBudget etcd-main [{minAvailable: 2}]"}},
			Members: map[string][]string{"main": {"1 seed-a-etcd-main-0"}},
			DNS:     []string{"api.live 10.0.0.1"},
			Backup:  "entry in seed-a",
			Seeds:   "status seed-a",
		}
	}

	It("should be equal to itself, the copy of the Shoot and what was changed and changed back aside", func() {
		after := state()
		after.Objects["seed-a"][1].Generation = 5
		after.Objects["seed-a"][2].Generation = 3
		after.Objects["seed-a"][3].Generation = 3
		Expect(state().Diff(after)).To(BeEmpty())
	})

	It("should let be replaced what a moment names, and nothing else", func() {
		before := state()
		before.Objects["seed-a"] = append(before.Objects["seed-a"],
			inventory.Object{Resource: "dnsrecords", Namespace: "ns", Name: "live-external", UID: "7"})
		after := state()
		after.Objects["seed-a"] = append(after.Objects["seed-a"],
			inventory.Object{Resource: "dnsrecords", Namespace: "ns", Name: "live-external", UID: "8"})
		Expect(before.Diff(after)).To(HaveLen(1))
		Expect(before.Diff(after, "dnsrecords ")).To(BeEmpty())
		after.Objects["seed-a"] = after.Objects["seed-a"][:len(after.Objects["seed-a"])-1]
		Expect(before.Diff(after, "dnsrecords ")).To(HaveLen(1), "it has to come back")
	})

	DescribeTable("should tell what has changed", func(change func(*abort.State), line string) {
		after := state()
		change(after)
		Expect(state().Diff(after)).To(Equal([]string{line}))
	},
		Entry("something left in the destination", func(s *abort.State) {
			s.Objects["seed-b"] = []inventory.Object{{Resource: "namespaces", Name: "ns"}}
		}, "seed-b: new: namespaces ns"),
		Entry("a restarted etcd", func(s *abort.State) { s.Objects["seed-a"][0].UID = "9" },
			"seed-a: replaced: pods ns/etcd-main-0"),
		Entry("a disruption budget that lets nothing go", func(s *abort.State) {
			s.Restored["seed-a"][1] = "PodDisruptionBudget etcd-main [{minAvailable: 3}]"
		}, "disruption budgets and DNSRecords in seed-a: [DNSRecord live-internal [{ttl: 120}] "+
			"PodDisruptionBudget etcd-main [{minAvailable: 3}]], were [DNSRecord live-internal [{ttl: 120}] "+
			"PodDisruptionBudget etcd-main [{minAvailable: 2}]]"),
		Entry("a DNS record that keeps its short TTL", func(s *abort.State) {
			s.Restored["seed-a"][0] = "DNSRecord live-internal [{ttl: 30}]"
		}, "disruption budgets and DNSRecords in seed-a: [DNSRecord live-internal [{ttl: 30}] "+
			"PodDisruptionBudget etcd-main [{minAvailable: 2}]], were [DNSRecord live-internal [{ttl: 120}] "+
			"PodDisruptionBudget etcd-main [{minAvailable: 2}]]"),
		Entry("another disruption budget of the same name", func(s *abort.State) { s.Objects["seed-a"][2].UID = "9" },
			"seed-a: replaced: poddisruptionbudgets ns/etcd-main"),
		Entry("a member left",
			func(s *abort.State) { s.Members["main"] = append(s.Members["main"], "2 seed-b-etcd-main-0") },
			"members of main: [1 seed-a-etcd-main-0 2 seed-b-etcd-main-0], were [1 seed-a-etcd-main-0]"),
		Entry("another address", func(s *abort.State) { s.DNS = nil }, "DNS: [], was [api.live 10.0.0.1]"),
		Entry("the backup entry elsewhere", func(s *abort.State) { s.Backup = "entry in seed-b" },
			"backup entry: entry in seed-b, was entry in seed-a"),
		Entry("another seed", func(s *abort.State) { s.Seeds = "status seed-b" },
			"seeds: status seed-b, were status seed-a"),
	)
})

var _ = Describe("Moments", func() {
	It("should be permitted ones", func() {
		for _, moment := range abort.Moments() {
			step, ok := steps.Get(moment.Step)
			Expect(ok).To(BeTrue(), moment.Name)
			Expect(step.Abortable || step.PointOfNoReturn && moment.PauseBefore == moment.Step).To(BeTrue(),
				moment.Name)
		}
	})

	It("should be recognized by what the condition says", func() {
		moments := abort.Moments()
		conditions := []gardencorev1beta1.Condition{
			{Type: moments[6].Step, Reason: string(steps.ReasonJoiningEtcdMembers),
				Message: "4 voters (3 in the source, 1 in the destination)"},
		}
		var reached []string
		for _, moment := range moments {
			if moment.Reached(conditions) {
				reached = append(reached, moment.Name)
			}
		}
		Expect(reached).To(Equal([]string{"while the first members join", "with members joined"}))
		Expect(moments[0].Reached(nil)).To(BeFalse())
	})

	It("should not slip through when the last members of both etcds join at once", func() {
		conditions := []gardencorev1beta1.Condition{{
			Type:   gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined,
			Reason: string(steps.ReasonCompleted),
			Status: gardencorev1beta1.ConditionTrue,
		}, {
			Type:   gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer,
			Reason: string(steps.ReasonMigratingExtensions),
			Status: gardencorev1beta1.ConditionProgressing,
		}}
		var reached []string
		for _, moment := range abort.Moments() {
			if moment.Reached(conditions) {
				reached = append(reached, moment.Name)
				Expect(moment.Passed(conditions)).To(BeFalse())
			}
		}
		Expect(reached).To(Equal([]string{"with all members joined"}))
	})

	It("should be known to have passed when their step is done", func() {
		for _, moment := range abort.Moments() {
			conditions := []gardencorev1beta1.Condition{{Type: moment.Step, Status: gardencorev1beta1.ConditionTrue}}
			Expect(moment.Passed(conditions)).To(BeTrue(), moment.Name)
			Expect(moment.Passed(nil)).To(BeFalse())
			Expect(moment.Passed(append(conditions, gardencorev1beta1.Condition{
				Type:   gardencorev1beta1.ShootLiveMigrationMigrationCompleted,
				Status: gardencorev1beta1.ConditionTrue,
			}))).To(BeFalse(), "a migration before this one")
		}
	})
})
