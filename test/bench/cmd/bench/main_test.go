// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/data"
)

func TestBench(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Bench Command Suite")
}

var _ = Describe("chosen", func() {
	It("should be all parts, or those asked for in the order of all", func() {
		Expect(chosen("")).To(Equal(data.Parts()))
		Expect(chosen("size,relay")).To(Equal([]string{data.PartRelay, data.PartSize}))
	})

	It("should refuse what is no part", func() {
		_, err := chosen("relay,speed")
		Expect(err).To(MatchError(And(ContainSubstring(`"speed"`), ContainSubstring("landscape"))))
	})
})
