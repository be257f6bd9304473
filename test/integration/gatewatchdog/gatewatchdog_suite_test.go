// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/integration/framework"
)

func TestGateWatchdog(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration GateWatchdog Suite")
}

const (
	source      = "seed-a"
	destination = "seed-b"
	// identity is who the controller manager is in the garden. It has the permissions of the chart and no others.
	identity = "livecpm-controller-manager"
)

var (
	ctx    = context.Background()
	garden *framework.Garden
)

var _ = BeforeSuite(func() {
	garden = framework.Start(ctx)
	Expect(garden.InstallChart(ctx, map[string]any{
		"runtime": map[string]any{"enabled": false},
		"controllerManager": map[string]any{
			"enabled": true,
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
				"name": identity}},
		},
	})).To(Succeed())
	Expect(garden.InstallPolicies(ctx)).To(Succeed())
	Expect(garden.CreateSeed(ctx, framework.NewSeed(source))).To(Succeed())
	Expect(garden.CreateSeed(ctx, framework.NewSeed(destination))).To(Succeed())
})
