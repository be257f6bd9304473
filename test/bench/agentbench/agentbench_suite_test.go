// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agentbench

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestAgentbench(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Bench Agents Suite")
}
