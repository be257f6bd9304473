// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/proof/probe"
)

var _ = Describe("WritesBetween", func() {
	begin := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var writes []probe.Ack
	for i := range 200 { // one every 50 ms, the later the slower
		writes = append(writes, probe.Ack{At: at(float64(i) / 20), Latency: time.Duration(i+1) * time.Millisecond})
	}
	load := probe.Acknowledged(writes...)

	DescribeTable("should take the writes of the time, its begin included", func(from, to, p99, slowest float64) {
		gotP99, gotSlowest := load.WritesBetween(at(from), at(to))
		Expect([]float64{gotP99, gotSlowest}).To(Equal([]float64{p99, slowest}))
	},
		Entry("all", 0.0, 10.0, 199.0, 200.0),
		Entry("half", 5.0, 10.0, 200.0, 200.0),
		Entry("one", 5.0, 5.05, 101.0, 101.0),
		Entry("the first ones", -10.0, 0.1, 2.0, 2.0),
		Entry("none", 20.0, 30.0, 0.0, 0.0),
	)
})

var _ = Describe("Series", func() {
	It("should count every write in the bucket of its latency", func() {
		begin := time.Now().Add(-3 * time.Second)
		load := probe.Acknowledged(probe.Ack{At: begin, Latency: 20 * time.Millisecond},
			probe.Ack{At: begin, Latency: 21 * time.Millisecond}, probe.Ack{At: begin, Latency: 4 * time.Second})
		series := load.Series()
		sum, highest := 0, 0
		for _, point := range series.Points {
			for i, count := range point.Counts {
				sum += count
				if count > 0 {
					highest = max(highest, i)
				}
			}
		}
		Expect(sum).To(Equal(3))
		Expect(series.BoundsMs[highest]).To(Equal(4000.0))
	})
})
