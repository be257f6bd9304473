// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/preflight"
)

var _ = Describe("The distance between the seeds", func() {
	slow := func(c *seedfacts.Connection) { c.Result.RoundTrip.Duration = 150 * time.Millisecond }

	DescribeTable("should be told apart from everything else that refuses a destination", func(
		expected bool, plant func(*preflight.Facts),
	) {
		w := probed()
		w.Planned = true
		plant(&w)
		Expect(preflight.OnlyTooFar(preflight.Evaluate(w))).To(Equal(expected))
	},
		Entry("nothing refuses it", false, func(*preflight.Facts) {}),
		Entry("the regions are too far apart", true,
			func(w *preflight.Facts) { w.Destination.Seed.Spec.Provider.Region = "region-c" }),
		Entry("nobody says how far they are apart", true,
			func(w *preflight.Facts) { w.Destination.Seed.Spec.Provider.Region = "region-x" }),
		Entry("the distances cannot be read", false,
			func(w *preflight.Facts) { w.RegionConfigMaps, w.RegionError = nil, errors.New("boom") }),
		Entry("the round trip is too long", true,
			func(w *preflight.Facts) { found(w.Source.Seed, slow) }),
		Entry("both", true, func(w *preflight.Facts) {
			w.Destination.Seed.Spec.Provider.Region = "region-c"
			found(w.Source.Seed, slow)
		}),
		Entry("the round trip is too long and the clock is wrong", false, func(w *preflight.Facts) {
			found(w.Source.Seed, func(c *seedfacts.Connection) {
				slow(c)
				c.Result.ClockSkew.Duration = time.Minute
			})
		}),
		Entry("the round trip is too long and something could not be found out", false, func(w *preflight.Facts) {
			found(w.Source.Seed, func(c *seedfacts.Connection) {
				slow(c)
				c.Result.Unknown = []string{"images"}
			})
		}),
		Entry("the regions are too far apart and the versions differ", false, func(w *preflight.Facts) {
			w.Destination.Seed.Spec.Provider.Region = "region-c"
			w.Destination.Seed.Status.Gardener.Version = "v1.0.0"
		}),
	)

	DescribeTable("should be known in the figures of the guards", func(
		distance any, trip time.Duration, change func(*preflight.Facts),
	) {
		w := probed()
		change(&w)
		apart := preflight.ApartOf(w)
		if distance == nil {
			Expect(apart.Distance).To(BeNil())
		} else {
			Expect(apart.Distance).To(HaveValue(Equal(distance)))
		}
		Expect(apart.RoundTrip).To(Equal(trip * time.Millisecond))
	},
		Entry("configured and measured", 180, time.Duration(2), func(*preflight.Facts) {}),
		Entry("the longer one of both", 180, time.Duration(150),
			func(w *preflight.Facts) { found(w.Destination.Seed, slow) }),
		Entry("one region", 0, time.Duration(2),
			func(w *preflight.Facts) { w.Destination.Seed.Spec.Provider.Region = "region-a" }),
		Entry("not configured", nil, time.Duration(2),
			func(w *preflight.Facts) { w.Destination.Seed.Spec.Provider.Region = "region-x" }),
		Entry("no ConfigMap", nil, time.Duration(2), func(w *preflight.Facts) { w.RegionConfigMaps = nil }),
		Entry("measured by one side only", 180, time.Duration(0), func(w *preflight.Facts) {
			found(w.Destination.Seed, func(c *seedfacts.Connection) { c.Result = nil })
		}),
		Entry("measured too long ago", 180, time.Duration(0), func(w *preflight.Facts) { w.Now = now.Add(time.Hour) }),
		Entry("no agent says anything", 180, time.Duration(0),
			func(w *preflight.Facts) { delete(w.Source.Seed.Annotations, seedfacts.AnnotationProbes) }),
	)
})
