// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"bytes"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("DrainChanges", func() {
	It("should write every drain, and then whose progress changes, and which are not requested any more", func() {
		var out bytes.Buffer
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		changes := view.DrainChanges(func(line string) { out.WriteString(line) }, view.Options{})
		lines := func(all ...summary.Drain) string {
			out.Reset()
			changes(all, now)
			now = now.Add(time.Second)
			return out.String()
		}
		draining, asked := load[summary.Drain]("drains", "draining"), load[summary.Drain]("drains", "asked")

		const begun = "Seed seed-a: Drained is Progressing (Draining): 7 shoots: 1 done, 2 running, 1 waiting, " +
			"3 blocked (NotHighlyAvailable: 2, ShootHibernated: 1)\n"
		Expect(lines(asked, draining)).To(Equal("10:00:00Z  " + begun +
			"10:00:00Z  Seed seed-c: drain requested, livecpm-controller-manager has not begun\n"))
		Expect(lines(asked, draining)).To(BeEmpty(), "time passes")
		draining.Condition.Message = "7 shoots: 2 done"
		Expect(lines(draining, asked)).To(Equal(
			"10:00:02Z  Seed seed-a: Drained is Progressing (Draining): 7 shoots: 2 done\n"))
		Expect(lines(draining)).To(Equal("10:00:03Z  Seed seed-c: no drain requested\n"))
		Expect(lines(draining)).To(BeEmpty())
		Expect(lines(draining, asked)).To(HavePrefix("10:00:05Z  Seed seed-c: drain requested"))
	})
})

var _ = Describe("FleetChanges", func() {
	It("should write what is in flight, and then what changes", func() {
		var out bytes.Buffer
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		changes := view.FleetChanges(func(_ summary.Summary, line string) { out.WriteString(line) }, view.Options{})
		one := summary.Summary{Namespace: "garden-demo", Name: "live", State: summary.Processing, Progress: 10,
			Expected: &summary.Expectation{RemainingSeconds: 300}}
		two := summary.Summary{Namespace: "garden-demo", Name: "old", State: summary.Succeeded}
		lines := func(all ...summary.Summary) string {
			out.Reset()
			changes(all, now)
			now = now.Add(time.Second)
			return out.String()
		}

		Expect(lines(one, two)).To(Equal("10:00:00Z  [~5m left] garden-demo/live Processing\n"))
		one.Expected, one.Progress = &summary.Expectation{RemainingSeconds: 250}, 20
		Expect(lines(one, two)).To(BeEmpty(), "time passes")
		one.State = summary.Succeeded
		one.Expected = nil
		Expect(lines(one, two)).To(Equal("10:00:02Z  garden-demo/live Succeeded\n"))
		Expect(lines(two)).To(BeEmpty())
		Expect(lines()).To(BeEmpty())
		two.State = summary.Requested
		Expect(lines(two)).To(Equal("10:00:05Z  garden-demo/old Requested\n"))
	})
})
