// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conflict_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/livecpm/livecpm/pkg/conflict"
)

func TestConflict(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Conflict Suite")
}

var _ = Describe("Retry", func() {
	written := apierrors.NewConflict(schema.GroupResource{Resource: "shoots"}, "live", errors.New("written"))
	// attempts returns an attempt that ends with the errors, one after the other, and how often it was made.
	attempts := func(errs ...error) (func() error, *int) {
		made := 0
		return func() error {
			made++
			return errs[min(made, len(errs))-1]
		}, &made
	}

	It("should attempt again after a conflict", func() {
		attempt, made := attempts(written, nil)
		Expect(conflict.Retry(attempt)).To(Succeed())
		Expect(*made).To(Equal(2))
	})

	DescribeTable("returns what an attempt failed by", func(failure error) {
		attempt, made := attempts(written, failure, nil)
		Expect(conflict.Retry(attempt)).To(MatchError(failure))
		Expect(*made).To(Equal(2))
	},
		Entry("anything else", errors.New("refused")),
		Entry("a timeout", context.DeadlineExceeded),
		Entry("the end of the context", context.Canceled),
	)

	It("should return the conflict if it does not end", func() {
		attempt, made := attempts(written)
		Expect(conflict.Retry(attempt)).To(MatchError(written))
		Expect(*made).To(BeNumerically(">", 1))
	})
})
