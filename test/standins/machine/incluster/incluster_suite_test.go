// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package incluster_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestInCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "In-Cluster Client Suite")
}
