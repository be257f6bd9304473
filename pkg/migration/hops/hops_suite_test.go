// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hops_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestHops(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Migration Hops Suite")
}
