// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Start starts a garden for a suite, from its BeforeSuite, and makes what shoots need there. It is stopped when the
// suite ends.
func Start(ctx context.Context) *Garden {
	GinkgoHelper()
	return start(ctx, StartGarden)
}

// StartGuarded does the same with a garden that has Gardener's SeedAuthorizer and SeedRestriction in front of it.
func StartGuarded(ctx context.Context) *Garden {
	GinkgoHelper()
	return start(ctx, StartGuardedGarden)
}

func start(ctx context.Context, startGarden func(logr.Logger) (*Garden, error)) *Garden {
	GinkgoHelper()
	garden, err := startGarden(zap.New(zap.WriteTo(GinkgoWriter)))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(garden.Stop()).To(Succeed()) })
	Expect(garden.Bootstrap(ctx)).To(Succeed())
	return garden
}
