// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gardenletconfig_test

import (
	"os"
	"path/filepath"

	gardenerfeatures "github.com/gardener/gardener/pkg/features"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/gardenletconfig"
)

const loadable = `apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
gardenClientConnection:
  kubeconfig: /etc/garden/kubeconfig
seedConfig:
  metadata:
    name: seed-a
  spec:
    provider: {type: local, region: local}
    networks: {pods: 10.241.0.0/16, services: 10.97.0.0/16, nodes: 10.250.0.0/16}
    ingress: {domain: ingress.seed-a.livecpm.example, controller: {kind: nginx}}
    dns:
      provider: {type: local, credentialsRef: {apiVersion: v1, kind: Secret, name: dns, namespace: garden}}
      internal:
        type: local
        domain: internal.livecpm.example
        credentialsRef: {apiVersion: v1, kind: Secret, name: dns, namespace: garden}
`

var _ = Describe("#Load", func() {
	var path string

	BeforeEach(func() {
		path = filepath.Join(GinkgoT().TempDir(), "config.yaml")
	})

	It("should read the configuration with the gardenlet's defaults and feature gates", func() {
		gardenletfeatures.RegisterFeatureGates()
		Expect(os.WriteFile(path, []byte(loadable+"featureGates: {VictoriaLogsBackend: true}\n"), 0o600)).To(Succeed())
		Expect(gardenerfeatures.DefaultFeatureGate.Enabled(gardenerfeatures.VictoriaLogsBackend)).To(BeFalse())

		config, err := gardenletconfig.Load(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.SeedConfig.Name).To(Equal("seed-a"))
		Expect(config.Controllers.Shoot.ConcurrentSyncs).NotTo(BeNil())
		Expect(gardenerfeatures.DefaultFeatureGate.Enabled(gardenerfeatures.VictoriaLogsBackend)).To(BeTrue())
	})

	DescribeTable("should refuse what the agent cannot work with",
		func(text, message string) {
			Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
			_, err := gardenletconfig.Load(path)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("nonsense", "{", "failed to decode"),
		Entry("no seed", "apiVersion: gardenlet.config.gardener.cloud/v1alpha1\nkind: GardenletConfiguration\n",
			"seed"),
		Entry("unknown gate", loadable+"featureGates: {NoSuchGate: true}\n",
			"failed to set the gardenlet's feature gates"),
	)

	It("should report a file that is missing", func() {
		_, err := gardenletconfig.Load(path)
		Expect(err).To(MatchError(ContainSubstring("failed to read the gardenlet's configuration")))
	})
})
