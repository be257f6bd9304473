// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/integration/framework"
)

func TestMigration(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Migration Suite")
}

const (
	seedA = "seed-a"
	seedB = "seed-b"
)

var (
	ctx    = context.Background()
	garden *framework.Garden
)

var _ = BeforeSuite(func() {
	garden = framework.Start(ctx)
	Expect(garden.InstallPolicies(ctx)).To(Succeed())
	Expect(garden.CreateSeed(ctx, framework.NewSeed(seedA))).To(Succeed())
	Expect(garden.CreateSeed(ctx, framework.NewSeed(seedB))).To(Succeed())
})
