// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/integration/framework"
)

func TestGate(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Gate Suite")
}

const (
	source      = "seed-a"
	destination = "seed-b"
)

var (
	ctx    = context.Background()
	garden *framework.Garden
)

var _ = BeforeSuite(func() {
	garden = framework.Start(ctx)
	Expect(garden.CreateSeed(ctx, framework.NewSeed(source))).To(Succeed())
	Expect(garden.CreateSeed(ctx, framework.NewSeed(destination))).To(Succeed())
	Expect(garden.CreateSeed(ctx, framework.NewSeed("seed-c"))).To(Succeed())
})
