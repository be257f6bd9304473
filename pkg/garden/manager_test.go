// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package garden_test

import (
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/garden"
)

// A kubeconfig that leads nowhere.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: garden, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: garden, context: {cluster: garden}}]
current-context: garden
`

var _ = Describe("#NewManager", func() {
	var config *configv1alpha1.ControllerManagerConfiguration

	BeforeEach(func() {
		config = &configv1alpha1.ControllerManagerConfiguration{}
		configv1alpha1.SetControllerManagerDefaults(config)
		config.GardenClientConnection.Kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	})

	It("should tell when the garden does not answer, so that the program is started again", func() {
		Expect(os.WriteFile(config.GardenClientConnection.Kubeconfig, []byte(kubeconfig), 0o600)).To(Succeed())
		_, err := garden.NewManager(logr.Discard(), config)
		Expect(err).
			To(MatchError(And(ContainSubstring("failed to set up the manager"), ContainSubstring("127.0.0.1:1"))))
	})

	It("should not use the queue that may never shut down", func() {
		var used *bool
		_, err := garden.NewManagerFor(logr.Discard(), &rest.Config{Host: "https://127.0.0.1:1"},
			config, func(options *manager.Options) {
				used = options.Controller.UsePriorityQueue
			})
		Expect(err).To(HaveOccurred())
		Expect(used).To(HaveValue(BeFalse()))
	})

	It("should tell when there is no access to the garden", func() {
		_, err := garden.NewManager(logr.Discard(), config)
		Expect(err).To(MatchError(ContainSubstring("failed to set up access to the garden")))
	})
})
