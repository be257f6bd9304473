// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passon_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPassOn(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Pass On Suite")
}
