// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fill

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestFill(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Bench Fill Suite")
}
