// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exit_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/exit"
)

var _ = Describe("Code", func() {
	DescribeTable("should be what the error says", func(err error, expected int) {
		Expect(exit.Code(err)).To(Equal(expected))
	},
		Entry("none", nil, exit.Done),
		Entry("any", errors.New("away"), exit.Failed),
		Entry("timeout", &exit.Error{Code: exit.Timeout}, exit.Timeout),
		Entry("wrapped", fmt.Errorf("failed: %w", &exit.Error{Code: exit.Timeout, Err: errors.New("late")}),
			exit.Timeout),
	)

	It("should say nothing twice", func() {
		Expect((&exit.Error{Code: exit.Failed}).Error()).To(BeEmpty())
		cause := errors.New("late")
		Expect(&exit.Error{Code: exit.Failed, Err: cause}).To(MatchError(cause))
	})
})
