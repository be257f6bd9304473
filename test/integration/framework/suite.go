// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Start starts a garden for a suite, from its BeforeSuite, and makes what shoots need there. It is stopped when the suite
// ends.
func Start(ctx context.Context) *Garden {
	GinkgoHelper()
	garden, err := StartGarden(zap.New(zap.WriteTo(GinkgoWriter)))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(garden.Stop()).To(Succeed()) })
	Expect(garden.Bootstrap(ctx)).To(Succeed())
	return garden
}
