// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package data_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/test/bench/data"
)

var _ = DescribeTable("SpreadOf", func(figures []float64, spread Spread) {
	Expect(SpreadOf(figures)).To(Equal(spread))
},
	Entry("nothing", nil, Spread{}),
	Entry("one figure", []float64{7}, Spread{Median: 7, Low: 7, High: 7, Runs: 1}),
	Entry("an odd number, in any order", []float64{9, 1, 4}, Spread{Median: 4, Low: 1, High: 9, Runs: 3}),
	Entry("an even number", []float64{9, 1, 4, 6}, Spread{Median: 5, Low: 1, High: 9, Runs: 4}),
)
