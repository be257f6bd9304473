// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// addKinds tells what became of each kind of requests. Older recordings do not tell.
func (r *Report) addKinds(kinds []recording.KindDetails) {
	if len(kinds) == 0 {
		return
	}
	table := Table{
		Title: "Kinds of requests",
		Header: []string{"requests", "sent", "failed at the first try", "client-go would not have sent again",
			"p99 before (ms)", "during", "after"},
		Note: "Latencies count from when a request was due, and are those of requests that succeeded. Failed " +
			"requests that client-go would have sent again might have succeeded then; nothing was sent again here.",
	}
	for _, kind := range kinds {
		table.Rows = append(table.Rows, Row{
			Cells: []string{kind.Verb + " " + kind.Kind, fmt.Sprint(kind.Sent), fmt.Sprint(kind.Failed),
				fmt.Sprint(kind.Failed - kind.Retryable), latency(kind.P99Ms.Before), latency(kind.P99Ms.During),
				latency(kind.P99Ms.After)},
			Bad: kind.Failed > 0,
		})
	}
	r.Tables = append(r.Tables, table)
}

// latency writes a latency in milliseconds; a dash if there is none.
func latency(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}
