// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overload_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/overload"
)

func TestOverload(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Overload Suite")
}

var _ = Describe("Check", func() {
	noAnswer := errors.New("no answer")

	DescribeTable("judges an answer", func(took time.Duration, err error, message string, overloaded bool) {
		got := overload.Check("etcd-main-1", took, err)
		Expect(overload.Is(got)).To(Equal(overloaded))
		if message == "" {
			Expect(got).NotTo(HaveOccurred())
			return
		}
		Expect(got).To(MatchError(message))
		if err != nil {
			Expect(got).To(MatchError(err))
		}
		Expect(overload.Is(fmt.Errorf("wrapped: %w", got))).To(Equal(overloaded))
	},
		Entry("that came in time", overload.Bound, nil, "", false),
		Entry("that came too late", 2300*time.Millisecond, nil,
			"etcd-main-1 answered in 2.3 s, more than 1 s: the seed is overloaded", true),
		Entry("that did not come", 2*time.Second, noAnswer,
			"etcd-main-1 did not answer within 2.0 s: the seed is overloaded, or cannot be reached: no answer", true),
		Entry("that was refused at once", time.Millisecond, noAnswer, "no answer", false),
	)
})

var _ = Describe("Slowest", func() {
	It("should be the one that took longest, and nothing else", func() {
		slow := &overload.Error{Who: "a", Took: 2 * time.Second}
		slower := &overload.Error{Who: "b", Took: 3 * time.Second}
		Expect(overload.Slowest(nil, slow, fmt.Errorf("wrapped: %w", slower), errors.New("refused"), slow)).
			To(BeIdenticalTo(slower))
		Expect(overload.Slowest(nil, errors.New("refused"))).To(Succeed())
	})
})
