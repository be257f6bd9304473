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
