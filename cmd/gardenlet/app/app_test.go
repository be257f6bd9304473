// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	gardenletapp "github.com/gardener/gardener/cmd/gardenlet/app"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/cmd/gardenlet/app"
)

var _ = Describe("#NewCommand", func() {
	It("should have all flags of Gardener's command and no others", func() {
		upstream, own := gardenletapp.NewCommand().Flags(), app.NewCommand().Flags()
		for _, name := range []string{"config", "version"} {
			Expect(upstream.Lookup(name)).NotTo(BeNil())
			Expect(own.Lookup(name)).NotTo(BeNil())
		}
		// Names, types, defaults and descriptions of all of them.
		Expect(own.FlagUsages()).To(Equal(upstream.FlagUsages()))
	})

	It("should be called and described as Gardener's command", func() {
		upstream, own := gardenletapp.NewCommand(), app.NewCommand()
		Expect(own.Use).To(Equal(upstream.Use))
		Expect(own.Short).To(Equal(upstream.Short))
		Expect(own.Commands()).To(BeEmpty())
		Expect(own.Args(own, []string{"something"})).NotTo(Succeed())
	})

	It("should complain about a configuration that is not there as the gardenlet does", func() {
		cmd := app.NewCommand()
		cmd.SetArgs([]string{"--config=" + filepath.Join(GinkgoT().TempDir(), "none.yaml")})
		cmd.SetOut(GinkgoWriter)
		cmd.SetErr(GinkgoWriter)
		Expect(cmd.ExecuteContext(context.Background())).To(MatchError(ContainSubstring("error reading config file")))
	})
})

var _ = Describe("#With", func() {
	var (
		began chan string
		both  func(gardenlet, companion func(ctx context.Context) error) (context.CancelFunc, chan error)
	)

	BeforeEach(func() {
		began = make(chan string, 2)
		both = func(gardenlet, companion func(ctx context.Context) error) (context.CancelFunc, chan error) {
			cmd := &cobra.Command{RunE: func(cmd *cobra.Command, _ []string) error {
				began <- "gardenlet"
				return gardenlet(cmd.Context())
			}}
			cmd.Flags().String("config", "", "")
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs([]string{"--config=/etc/gardenlet.yaml"})
			cmd = app.With(cmd, func(ctx context.Context, configFile string) error {
				began <- "agent with " + configFile
				return companion(ctx)
			})
			ctx, cancel := context.WithCancel(context.Background())
			DeferCleanup(cancel)
			ended := make(chan error, 1)
			go func() { ended <- cmd.ExecuteContext(ctx) }()
			return cancel, ended
		}
	})

	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	fail := func(message string) func(context.Context) error {
		return func(context.Context) error { return errors.New(message) }
	}

	It("should run both with the gardenlet's configuration until the process is told to end", func() {
		cancel, ended := both(wait, wait)
		var names []string
		for range 2 {
			var name string
			Eventually(began).Should(Receive(&name))
			names = append(names, name)
		}
		Expect(names).To(ConsistOf("gardenlet", "agent with /etc/gardenlet.yaml"))
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("should end both when the gardenlet fails", func() {
		_, ended := both(fail("lost its lease"), wait)
		Eventually(ended).Should(Receive(MatchError("lost its lease")))
	})

	It("should end both when the agent fails", func() {
		_, ended := both(wait, fail("lost its lease, too"))
		Eventually(ended).Should(Receive(MatchError("lost its lease, too")))
	})

	It("should end both when the gardenlet ends by itself, as it does for new credentials", func() {
		_, ended := both(func(context.Context) error { return nil }, wait)
		Eventually(ended).Should(Receive(BeNil()))
	})
})

var _ = Describe("#Configuration", func() {
	var (
		gardenlet   *gardenletconfigv1alpha1.GardenletConfiguration
		environment map[string]string
	)

	BeforeEach(func() {
		gardenlet = &gardenletconfigv1alpha1.GardenletConfiguration{LogLevel: "debug", LogFormat: "text"}
		environment = map[string]string{app.EnvRelayImage: "registry.example.com/livecpm-relay:v1"}
	})
	getenv := func(name string) string { return environment[name] }

	It("should need nothing but the relay's image", func() {
		config, err := app.Configuration(gardenlet, "/etc/gardenlet/config.yaml", getenv)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Relay.Image).To(Equal("registry.example.com/livecpm-relay:v1"))
		Expect(config.Gardenlet.ConfigurationFile).To(Equal("/etc/gardenlet/config.yaml"))
		Expect(config.LogLevel).To(Equal("debug"))
		Expect(config.LogFormat).To(Equal("text"))
		Expect(config.LeaderElection.ResourceName).To(Equal("livecpm-agent-leader-election"))
		Expect(config.LeaderElection.ResourceNamespace).To(Equal("garden"))
	})

	It("should say which variable is missing", func() {
		delete(environment, app.EnvRelayImage)
		_, err := app.Configuration(gardenlet, "/etc/gardenlet/config.yaml", getenv)
		Expect(err).To(MatchError(And(ContainSubstring("LIVECPM_RELAY_IMAGE"), ContainSubstring("relay.image"))))
	})

	It("should take everything else from a file, but not what is the gardenlet's", func() {
		file := filepath.Join(GinkgoT().TempDir(), "agent.yaml")
		Expect(os.WriteFile(file, []byte(`apiVersion: config.livecpm.gardener.cloud/v1alpha1
kind: AgentConfiguration
logLevel: error
gardenClientConnection: {kubeconfig: /somewhere/else}
gardenlet: {configurationFile: /somewhere/else, source: {}}
relay: {image: "registry.example.com/livecpm-relay:v0"}
controllers: {liveMigration: {concurrentSyncs: 3}}
`), 0o600)).To(Succeed())
		environment[app.EnvConfig] = file
		config, err := app.Configuration(gardenlet, "/etc/gardenlet/config.yaml", getenv)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.LiveMigration.ConcurrentSyncs).To(HaveValue(Equal(3)))
		Expect(config.Relay.Image).To(Equal("registry.example.com/livecpm-relay:v1"))
		Expect(config.LogLevel).To(Equal("debug"))
		Expect(config.Gardenlet.ConfigurationFile).To(Equal("/etc/gardenlet/config.yaml"))
		Expect(config.Gardenlet.Source).To(BeNil())
		Expect(config.GardenClientConnection.Kubeconfig).NotTo(Equal("/somewhere/else"))
	})

	It("should report a file that is missing or not understood", func() {
		environment[app.EnvConfig] = filepath.Join(GinkgoT().TempDir(), "none.yaml")
		_, err := app.Configuration(gardenlet, "/etc/gardenlet/config.yaml", getenv)
		Expect(err).To(MatchError(
			ContainSubstring("failed to read the agent's configuration (environment variable LIVECPM_AGENT_CONFIG)")))

		Expect(os.WriteFile(environment[app.EnvConfig], []byte("kind: Other\n"), 0o600)).To(Succeed())
		_, err = app.Configuration(gardenlet, "/etc/gardenlet/config.yaml", getenv)
		Expect(err).To(MatchError(ContainSubstring("failed to decode")))
	})
})
