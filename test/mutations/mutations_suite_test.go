// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// repository is the root of the repository, as seen from this package.
const repository = "../.."

func TestMutations(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Mutations Suite")
}
