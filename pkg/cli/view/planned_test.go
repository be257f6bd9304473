// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("Planned", func() {
	at := func(reason steps.Reason) summary.Summary {
		return summary.Summary{State: summary.Processing, Source: "seed-a", Destination: "seed-b",
			Reason: string(reason)}
	}
	const (
		cannot = "failed to get the status of etcd member at livecpm-relay.svc:22379: context deadline exceeded"
		voters = "etcd-main: 6 voters (3 in the source, 3 in the destination), 5 healthy"
		five   = "etcd-main: 5 voters (2 in the source, 3 in the destination), 4 healthy"
		four   = "etcd-main: 4 voters (1 in the source, 3 in the destination), 3 healthy"
		other  = "; etcd-events: 5 voters (2 in the source, 3 in the destination), 4 healthy; seed-a-etcd-events-0 " +
			"(2f, unhealthy): " + cannot
		events = "; etcd-events: 3 voters (0 in the source, 3 in the destination), 3 healthy"
	)

	DescribeTable("should put what is done on purpose into words, and nothing else",
		func(reason steps.Reason, message, expected string) {
			Expect(view.Planned(message, at(reason))).To(Equal(expected))
			for _, state := range []summary.Summary{
				{State: summary.Overdue, Source: "seed-a", Destination: "seed-b", Reason: string(reason)},
				at(steps.ReasonQuorumAtRisk), at(steps.ReasonPreparingDestination)} {
				Expect(view.Planned(message, state)).To(Equal(message), "at another moment")
			}
		},
		Entry("nothing", steps.ReasonReadyForSourceMemberRemoval, "", ""),
		Entry("what tells of no etcd", steps.ReasonReadyForSourceMemberRemoval, "seed-a-etcd-main-2 (1f, unhealthy): "+
			cannot, "seed-a-etcd-main-2 (1f, unhealthy): "+cannot),
		Entry("the first member of the source", steps.ReasonReadyForSourceMemberRemoval,
			voters+"; seed-a-etcd-main-2 (54b3ac76ddb49a18, unhealthy): "+cannot+events,
			voters+"; seed-a-etcd-main-2 is stopping, as planned (1 of 3)"+events),
		Entry("the second one, of a source without a prefix", steps.ReasonReadyForSourceMemberRemoval,
			five+"; etcd-main-1 (1f, unhealthy): "+cannot, five+"; etcd-main-1 is stopping, as planned (2 of 3)"),
		Entry("each etcd by itself", steps.ReasonReadyForSourceMemberRemoval,
			four+"; seed-a-etcd-main-0 (1f, unhealthy): "+cannot+other,
			four+"; seed-a-etcd-main-0 is stopping, as planned (3 of 3)"+other),
		Entry("not a member whose turn it is not, nor one that stays", steps.ReasonReadyForSourceMemberRemoval,
			voters+"; seed-a-etcd-main-1 (1f, unhealthy): "+cannot+"; seed-b-etcd-main-2 (2f, unhealthy): "+cannot,
			voters+"; seed-a-etcd-main-1 (1f, unhealthy): "+cannot+"; seed-b-etcd-main-2 (2f, unhealthy): "+cannot),
		Entry("a member that joins", steps.ReasonJoiningLastEtcdMember,
			voters+"; seed-b-etcd-main-2 (2f, learner, unhealthy): "+cannot,
			voters+"; seed-b-etcd-main-2 is starting, as planned (3 of 3)"),
		Entry("not a member of the source meanwhile", steps.ReasonJoiningLastEtcdMember,
			voters+"; seed-a-etcd-main-2 (2f, unhealthy): "+cannot,
			voters+"; seed-a-etcd-main-2 (2f, unhealthy): "+cannot),
		Entry("members that restart", steps.ReasonRollingEtcd, "etcd-main: member 1 restarts: "+cannot+
			"; etcd-events: member 2 restarts: its pod is not ready",
			"etcd-main: member 1 is restarting, as planned (2 of 3); etcd-events: member 2 is restarting, as planned "+
				"(1 of 3)"),
	)

	It("should take no only member of the source for one that stops on purpose", func() {
		joins := at(steps.ReasonWaitingForEtcdMember)
		joins.WithGap = true
		const learner = "etcd-main: 1 voters (1 in the source, 0 in the destination), 1 healthy, 1 learner; " +
			"seed-b-etcd-main-0 (2f, learner, unhealthy): " + cannot
		Expect(view.Planned(learner, joins)).To(HaveSuffix("; seed-b-etcd-main-0 is starting, as planned (1 of 1)"))
		removed := at(steps.ReasonReadyForSourceMemberRemoval)
		removed.WithGap = true
		const lost = "etcd-main: 2 voters (1 in the source, 1 in the destination), 1 healthy; " +
			"seed-a-etcd-main-0 (1f, unhealthy): " + cannot
		Expect(view.Planned(lost, removed)).To(Equal(lost))
	})

	It("should tell what members and pods do, except with Wide", func() {
		w := load[summary.ControlPlane]("worlds", "moving")
		expectGolden("tree-moving-wide", view.Tree(w, view.Options{Wide: true}))
		Expect(view.Tree(w, view.Options{})).NotTo(ContainSubstring("seed-a-etcd-main-1 (d231989c1266553f"))
		Expect(view.Tree(w, view.Options{Wide: true})).To(ContainSubstring("context deadline exceeded"))
	})

	It("should not take a member of the source for stopping that is not the next one", func() {
		w := load[summary.ControlPlane]("worlds", "moving")
		w.Seeds[0].Etcds[0].Members[0].Status = "Unknown"
		Expect(view.Tree(w, view.Options{})).To(And(
			MatchRegexp(`seed-a-etcd-main-0 +voter +Unknown`),
			MatchRegexp(`seed-a-etcd-main-1 +voter +stopping, as planned \(2 of 3\)`)))
	})

	type change = func(*summary.ControlPlane)
	at4and7 := map[steps.Reason]int{steps.ReasonDeployingKubeAPIServer: 3, steps.ReasonSourceControllersStopped: 6}
	DescribeTable("should tell the same of the kube-apiserver", func(reason steps.Reason, do change, expected string) {
		w := load[summary.ControlPlane]("worlds", "moving")
		i := at4and7[reason]
		for n := range w.Shoot.Status.LiveMigration.Conditions {
			c := &w.Shoot.Status.LiveMigration.Conditions[n]
			switch {
			case n < i:
				c.Status = "True"
			case n == i:
				c.Status, c.Reason, c.Message = "Progressing", string(reason), ""
			default:
				c.Status, c.Reason = "Unknown", "Pending"
			}
		}
		do(&w)
		Expect(view.Tree(w, view.Options{})).To(MatchRegexp(expected))
		Expect(view.Tree(w, view.Options{Wide: true})).NotTo(ContainSubstring("as planned"))
	},
		Entry("one that starts", steps.ReasonDeployingKubeAPIServer,
			func(w *summary.ControlPlane) { w.Seeds[1].APIServers[1].Ready = false },
			`kube-apiserver-884445cf4-f6jkp +starting, as planned \(2 of 2\)`),
		Entry("one that stops", steps.ReasonSourceControllersStopped,
			func(w *summary.ControlPlane) { w.Seeds[0].APIServers[0].Terminating = true },
			`kube-apiserver-7d9c5b-abcde +stopping, as planned \(1 of 2\)`),
		Entry("one that is not ready without a plan", steps.ReasonSourceControllersStopped,
			func(w *summary.ControlPlane) { w.Seeds[1].APIServers[1].Ready = false },
			`kube-apiserver-884445cf4-f6jkp +not ready`),
	)
})
