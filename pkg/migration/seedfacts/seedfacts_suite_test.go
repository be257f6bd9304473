// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedfacts_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestSeedFacts(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Seed Facts Suite")
}
