// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package passive_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/integration/framework"
)

func TestPassive(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration Passive Suite")
}

var (
	ctx = context.Background()
	// seed is a real API server; that it also serves Gardener's API is of no use here.
	seed *framework.Garden
)

var _ = BeforeSuite(func() { seed = framework.Start(ctx) })
