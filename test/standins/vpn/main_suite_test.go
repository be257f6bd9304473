// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestVPN(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "VPN Stand-in Suite")
}
