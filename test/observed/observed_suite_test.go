// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestObserved(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Observed Suite")
}
