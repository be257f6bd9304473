// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package permissions_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	controllermanager "sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	livecpm "github.com/livecpm/livecpm/pkg/garden"
)

// startControllerManager runs livecpm-controller-manager with the permissions of the chart until the spec ends.
func startControllerManager() {
	GinkgoHelper()
	config := &configv1alpha1.ControllerManagerConfiguration{}
	configv1alpha1.SetControllerManagerDefaults(config)
	config.Controllers.GateWatchdog.ProofPeriod.Duration = 500 * time.Millisecond
	config.Controllers.Drain.Pause.Duration = 0
	config.Controllers.Drain.SyncPeriod.Duration = time.Second
	mgr, err := livecpm.NewManagerFor(zap.New(zap.WriteTo(GinkgoWriter)), as(manager),
		config, func(options *controllermanager.Options) {
			options.HealthProbeBindAddress, options.Metrics.BindAddress = "0", "0"
			options.Controller.SkipNameValidation = new(true)
		})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
}
