// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package single_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestSingle(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "search for an etcd with one member suite")
}
