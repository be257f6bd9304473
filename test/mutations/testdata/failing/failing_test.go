// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package failing_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestFailing(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Failing Suite")
}

var _ = Describe("a spec", func() {
	It("should not pass by itself", func() { Expect(1).To(Equal(2)) })
})
