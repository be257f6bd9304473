// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("History", func() {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	var all []history.Step
	for i, step := range steps.Table() {
		all = append(all, history.Step{Condition: step.String(), Seconds: float64(40 * (i + 1))})
	}
	records := []history.Record{
		{Namespace: "garden-demo", Name: "live", Source: "seed-b", Destination: "seed-a",
			Started: ptr.To(at.Add(time.Hour))},
		{Namespace: "garden-demo", Name: "live", Source: "seed-a", Destination: "seed-b", Result: history.Succeeded,
			Started: ptr.To(at), Ended: ptr.To(at.Add(9 * time.Minute)), Steps: all},
		{Namespace: "garden-shop", Name: "shop", Source: "seed-c", Destination: "seed-b", Result: history.Aborted,
			Started: ptr.To(at.Add(-time.Hour)), Ended: ptr.To(at.Add(-time.Minute)), Steps: all[:1]},
		{Namespace: "garden-shop", Name: "old", Destination: "seed-b", Result: history.Succeeded,
			Ended: ptr.To(at.Add(-24 * time.Hour))},
	}

	It("should draw migrations, and with Wide the time of each step", func() {
		expectGolden("history", view.History(records, view.Options{}))
		expectGolden("history-wide", view.History(records, view.Options{Wide: true, Color: true}))
	})
})
