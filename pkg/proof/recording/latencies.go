// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"math"
	"slices"
	"strconv"
)

const (
	// bucketsPerDecade is how fine latencies are told apart: each bucket ends at 1.6 times of the one before.
	bucketsPerDecade = 5
	// decades are those from a millisecond to 100 seconds.
	decades = 5
)

// LatencyBoundsMs returns the upper bounds of buckets for latencies, in milliseconds, on a logarithmic scale.
func LatencyBoundsMs() []float64 {
	var out []float64
	for i := range bucketsPerDecade*decades + 1 {
		// Two digits are enough for a bound, and can be read.
		text := strconv.FormatFloat(math.Pow(10, float64(i)/bucketsPerDecade), 'g', 2, 64)
		bound, _ := strconv.ParseFloat(text, 64) // It was a number a line before.
		out = append(out, bound)
	}
	return out
}

// CountLatencies returns how many of the latencies, in milliseconds, are in each bucket: not above its bound, and above
// the one before. The last count is that of what is above all bounds. Counts of zero at the end are left out.
func CountLatencies(boundsMs, latenciesMs []float64) []int {
	out := make([]int, len(boundsMs)+1)
	for _, ms := range latenciesMs {
		i, _ := slices.BinarySearch(boundsMs, ms)
		out[i]++
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return out
}
