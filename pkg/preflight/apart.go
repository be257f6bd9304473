// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"time"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// Apart is how far two seeds are apart, in the figures by which RegionDistance and SeedConnection judge.
type Apart struct {
	// Distance is the distance of their regions by the region ConfigMap, zero in one region; nil if nothing says.
	Distance *int
	// RoundTrip is the longer one of those that both agents have measured; zero if they have not, or not in the last 30
	// minutes.
	RoundTrip time.Duration
}

// ApartOf returns how far the seeds of the facts are apart. Both seeds must have been read.
func ApartOf(f Facts) Apart {
	var out Apart
	switch distance, ok, err := configuredDistance(f); {
	case sameRegion(f):
		out.Distance = new(int)
	case err == nil && ok:
		out.Distance = &distance
	}
	for _, way := range [][2]SeedView{{f.Source, f.Destination}, {f.Destination, f.Source}} {
		var probes seedfacts.Probes
		if seedfacts.Of(way[0].Seed, seedfacts.AnnotationProbes, &probes) != nil {
			return Apart{Distance: out.Distance}
		}
		result := probes.To(way[1].Name).Result
		if result == nil || result.Outdated(f.Now) || !result.Measured() {
			return Apart{Distance: out.Distance}
		}
		out.RoundTrip = max(out.RoundTrip, result.RoundTrip.Duration)
	}
	return out
}
