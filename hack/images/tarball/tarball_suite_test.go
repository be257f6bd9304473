// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tarball_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestTarball(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Hack Images Tarball Suite")
}
