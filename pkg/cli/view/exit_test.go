// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

var _ = Describe("Code", func() {
	DescribeTable("should be what the error says", func(err error, expected int) {
		Expect(view.ExitCode(err)).To(Equal(expected))
	},
		Entry("none", nil, view.ExitDone),
		Entry("any", errors.New("away"), view.ExitFailed),
		Entry("timeout", &view.ExitError{Code: view.ExitTimeout}, view.ExitTimeout),
		Entry("wrapped", fmt.Errorf("failed: %w", &view.ExitError{Code: view.ExitTimeout, Err: errors.New("late")}),
			view.ExitTimeout),
	)

	It("should say nothing twice", func() {
		Expect((&view.ExitError{Code: view.ExitFailed}).Error()).To(BeEmpty())
		cause := errors.New("late")
		Expect(&view.ExitError{Code: view.ExitFailed, Err: cause}).To(MatchError(cause))
	})
})
