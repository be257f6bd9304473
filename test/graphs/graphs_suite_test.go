// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package graphs_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestGraphs(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Graphs Suite")
}
