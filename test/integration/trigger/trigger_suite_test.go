// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package trigger_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/patience"
)

func TestTrigger(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience.Eventually)
	RunSpecs(t, "Integration Trigger Suite")
}

var (
	ctx    = context.Background()
	garden *framework.Garden
)

var _ = BeforeSuite(func() {
	garden = framework.Start(ctx)
	Expect(garden.InstallPolicies(ctx)).To(Succeed())
})
