// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"bytes"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("DrainPlan", func() {
	moves := func(name, purpose, to string, way drain.Way) drain.TableRow {
		return drain.TableRow{Namespace: "garden-demo", Name: name, Purpose: purpose, State: drain.Waiting,
			Reason: drain.ReasonNext, Message: "moves to seed " + to + " next", Destination: to, Way: way}
	}
	stays := func(name string) drain.TableRow {
		return drain.TableRow{Namespace: "garden-shop", Name: name, Purpose: "testing", State: drain.Blocked,
			Reason: "NotHighlyAvailable", Message: "the control plane of the shoot is not highly available"}
	}

	It("should draw who leaves and who stays", func() {
		plan := view.DrainPlan{Seed: "seed-a", Counts: drain.Counts{Total: 5, Waiting: 4, Blocked: 1},
			Shoots: []drain.TableRow{moves("try-out", "evaluation", "seed-b", drain.Live), stays("small"),
				moves("asleep", "testing", "seed-b", drain.ClassicWhileHibernated),
				{Namespace: "garden-shop", Name: "dozing", Purpose: "testing", State: drain.Waiting,
					Reason: drain.ReasonHibernating, Message: "on its way into hibernation"},
				moves("live", "production", "seed-c", drain.Live)}}
		expectGolden("drain-plan", plan.Text(view.Options{}))
		expectGolden("drain-plan-wide", plan.Text(view.Options{Wide: true}))
	})

	It("should draw who leaves by way of another seed", func() {
		far := moves("far", "production", "seed-m", drain.Live)
		far.FinalDestination = "seed-b"
		unknown := far
		unknown.Name, unknown.Reason = "unknown", drain.ReasonNotMeasured
		unknown.Message = "moves to seed seed-b by way of seed seed-m when the agents have measured all connections"
		plan := view.DrainPlan{Seed: "seed-a", Counts: drain.Counts{Total: 2, Waiting: 2},
			Shoots: []drain.TableRow{far, unknown}}
		expectGolden("drain-plan-by-way", plan.Text(view.Options{}))
	})

	It("should say that all leave, or that there is nobody", func() {
		plan := view.DrainPlan{Seed: "seed-a", Counts: drain.Counts{Total: 1, Waiting: 1},
			Shoots: []drain.TableRow{moves("live", "production", "seed-b", drain.Classic)}}
		expectGolden("drain-plan-all", plan.Text(view.Options{}))
		Expect(view.DrainPlan{Seed: "seed-a"}.Text(view.Options{})).To(Equal("No shoot is in seed seed-a.\n"))
	})

	DescribeTable("should write the progress as a line", func(d summary.Drain, expected string) {
		Expect(view.DrainLine(d)).To(Equal(expected))
	},
		Entry("none", summary.Drain{Seed: "seed-a"}, "Seed seed-a: no drain requested"),
		Entry("requested", summary.Drain{Seed: "seed-a", Requested: true},
			"Seed seed-a: drain requested, livecpm-controller-manager has not begun"),
		Entry("draining", summary.Drain{Seed: "seed-a", Requested: true, Condition: &gardencorev1beta1.Condition{
			Type: drain.ConditionDrained, Status: "False", Reason: "ShootsBlocked", Message: "1 shoot:\n1 blocked"}},
			"Seed seed-a: Drained is False (ShootsBlocked): 1 shoot: 1 blocked"),
	)
})

var _ = Describe("Points in time", func() {
	var (
		at   = time.Date(2026, 11, 25, 23, 30, 0, 0, time.UTC)
		here = view.Options{Zone: time.FixedZone("CET", 3600)}
	)

	It("should have their zone, and UTC if none is given", func() {
		Expect(here.Moment(at)).To(Equal("2026-11-26T00:30:00+01:00"))
		Expect(here.Clock(at)).To(Equal("00:30:00+01:00"))
		Expect(view.Options{}.Moment(at)).To(Equal("2026-11-25T23:30:00Z"))
	})

	It("should have it in lines and lists", func() {
		var out bytes.Buffer
		view.Changes(&out, here)(summary.ControlPlane{Now: metav1.NewTime(at), Shoot: &gardencorev1beta1.Shoot{}})
		Expect(out.String()).To(HavePrefix("00:30:00+01:00  "))
		Expect(view.Events([]view.Event{{Time: at, Where: "garden"}}, here)).To(HavePrefix("2026-11-26T00:30:00+01:00"))
		Expect(view.Logs([]view.LogLine{{Time: at, Where: "seed-a"}}, here)).To(HavePrefix("2026-11-26T00:30:00+01:00"))
	})
})
