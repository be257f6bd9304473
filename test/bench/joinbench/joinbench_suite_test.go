// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joinbench

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestJoinbench(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Bench Join Suite")
}
