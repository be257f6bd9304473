// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relaybench

import (
	"strconv"
	"strings"

	"github.com/livecpm/livecpm/test/bench/data"
)

// ParseGoBenchmarks reads what go test prints of benchmarks and sums up the runs of each, in the order in which they
// come. The number of processors at the end of a name is left out, as benchstat does.
func ParseGoBenchmarks(output string) []data.GoBenchmark {
	type key struct{ name, unit string }
	var order []key
	values := map[key][]float64{}
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				break
			}
			k := key{name, fields[i+1]}
			if _, known := values[k]; !known {
				order = append(order, k)
			}
			values[k] = append(values[k], value)
		}
	}
	out := make([]data.GoBenchmark, 0, len(order))
	for _, k := range order {
		out = append(out, data.GoBenchmark{Name: k.name, Unit: k.unit, Spread: data.SpreadOf(values[k])})
	}
	return out
}
