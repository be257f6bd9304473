// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPKI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Landscape PKI Suite")
}
