// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package data

import "slices"

// Spread is a figure over several runs. The zero value is one that was not measured.
type Spread struct {
	// Median is the middle one of the figures, or the mean of the two in the middle. Low and High are the range.
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// Runs is the number of the figures.
	Runs int `json:"runs"`
}

// SpreadOf sums up figures in any order. They are left as they are.
func SpreadOf(figures []float64) Spread {
	if len(figures) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(figures))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{Median: median, Low: sorted[0], High: sorted[len(sorted)-1], Runs: len(sorted)}
}
