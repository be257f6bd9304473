// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestRobustness(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Robustness Suite")
}
