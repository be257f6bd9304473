// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenaccess_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/integration/framework"
)

func TestGardenAccess(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Garden Access Suite")
}

var (
	ctx    = context.Background()
	garden *framework.Garden
)

// The cluster is both virtual garden and runtime cluster. What is in it is what the two releases of the chart make.
var _ = BeforeSuite(func() {
	garden = framework.Start(ctx)
	Expect(garden.InstallChart(ctx, map[string]any{"controllerManager": map[string]any{
		"enabled": true,
		"gardenKubeconfig": map[string]any{"tokenRequestor": map[string]any{
			"enabled": true, "server": garden.Config.Host}},
	}})).To(Succeed())
})
