// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package planted_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPlanted(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Planted Suite")
}
