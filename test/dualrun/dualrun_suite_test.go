// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dualrun_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestDualRun(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Dual Run Suite")
}
