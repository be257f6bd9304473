// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package openvpn_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestOpenVPN(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "OpenVPN Configuration Suite")
}
