// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/patience"
)

func TestLoadBalancer(t *testing.T) {
	SetDefaultEventuallyTimeout(patience.Eventually)
	RegisterFailHandler(Fail)
	RunSpecs(t, "The load balancers' stand-in")
}
