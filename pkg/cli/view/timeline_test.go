// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

var _ = Describe("Events and logs", func() {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.FixedZone("elsewhere", 3600))
	events := []view.Event{
		{Time: at, Where: "garden", Object: "Shoot live", Reason: "LiveMigrationStarted", Message: "the source\nbegins",
			By: "livecpm-agent"},
		{Time: at.Add(time.Minute), Where: "seed-b", Object: "Pod kube-apiserver-7f4968448d-5msp8-and-more",
			Warning: true, Reason: "Unhealthy", Count: 3,
			Message: "Readiness probe failed: HTTP probe failed with statuscode: 503, kube-apiserver waits for etcd"},
	}
	lines := []view.LogLine{
		{Time: at, Where: "seed-a", Pod: "agent-0", Container: "agent", Text: `{"level":"info","msg":"begins"}`},
		{Time: at.Add(time.Second), Where: "seed-bb", Pod: "relay-0", Container: "relay", Text: strings.Repeat("y",
			150)},
	}

	It("should draw events, and with Wide all of them", func() {
		expectGolden("events", view.Events(events, view.Options{Width: 120}))
		expectGolden("events-wide", view.Events(events, view.Options{Width: 120, Wide: true, Color: true}))
		for line := range strings.Lines(view.Events(events, view.Options{Width: 120})) {
			Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", 120))
		}
	})

	It("should draw logs and leave nothing of them out", func() {
		expectGolden("logs", view.Logs(lines, view.Options{Width: 80}))
		expectGolden("logs-wide", view.Logs(lines, view.Options{Wide: true}))
	})
})
