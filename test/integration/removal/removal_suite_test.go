// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removal_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/integration/framework"
)

func TestRemoval(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Removal Suite")
}

const (
	source      = "seed-a"
	destination = "seed-b"
	// elsewhere takes no part in the migration.
	elsewhere = "seed-c"
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
			// With its permissions for ConfigMaps the drain would hide what the guard lacks.
			"config": map[string]any{"controllers": map[string]any{"drain": map[string]any{"enabled": false}}},
		},
	})).To(Succeed())
	for _, seed := range []string{source, destination, elsewhere} {
		Expect(garden.CreateSeed(ctx, framework.NewSeed(seed))).To(Succeed())
	}
})
