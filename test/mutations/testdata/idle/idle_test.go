// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package idle_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestIdle(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Idle Suite")
}

var _ = Describe("something to do", func() {
	PIt("should be done later")
})
