// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/livecpm/livecpm/test/integration/framework"
)

func TestDrain(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Drain Suite")
}

// identity is who the controller manager is in the garden. It has the permissions of the chart and no others.
const identity = "livecpm-controller-manager"

var (
	ctx    = context.Background()
	garden *framework.Garden
)

var _ = BeforeSuite(func() {
	var err error
	garden, err = framework.StartGarden(zap.New(zap.WriteTo(GinkgoWriter)))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(garden.Stop()).To(Succeed()) })

	Expect(garden.Bootstrap(ctx)).To(Succeed())
	Expect(garden.InstallChart(ctx, map[string]any{
		"runtime": map[string]any{"enabled": false},
		"controllerManager": map[string]any{
			"enabled": true,
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
				"name": identity}},
		},
	})).To(Succeed())
	Expect(garden.InstallPolicies(ctx)).To(Succeed())
})
