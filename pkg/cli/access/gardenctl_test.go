// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"os"
	"path/filepath"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

var _ = Describe("gardenctl", func() {
	const (
		session    = "0b1b6a3e-2f0e-4a54-9a7c-2f6b8a4a1c11"
		kubeconfig = `apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}, {name: d, cluster: {server: "https://127.0.0.2:2"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: garden-one}}
- {name: two, context: {cluster: d, user: u, namespace: garden-two}}
`
	)
	var temporary, home, folder string
	// lies are what is in files of the session and of the user.
	lies := func(path, content string) {
		GinkgoHelper()
		Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	connect := func(args ...string) (*access.Garden, error) {
		flags := access.NewGardenFlags()
		command := &cobra.Command{}
		flags.AddTo(command)
		Expect(command.ParseFlags(args)).To(Succeed())
		return flags.Connect(context.Background())
	}

	BeforeEach(func() {
		temporary, home = GinkgoT().TempDir(), GinkgoT().TempDir()
		folder = filepath.Join(temporary, "garden", "sessions", session)
		GinkgoT().Setenv("TMPDIR", temporary)
		GinkgoT().Setenv("HOME", home)
		GinkgoT().Setenv("GCTL_HOME", "")
		GinkgoT().Setenv("GCTL_CONFIG_NAME", "")
		GinkgoT().Setenv("GCTL_SESSION_ID", session)
		GinkgoT().Setenv("KUBECONFIG", filepath.Join(folder, "kubeconfig.5f4dcc3b.yaml"))

		lies(filepath.Join(home, "garden.yaml"), kubeconfig)
		lies(filepath.Join(home, ".garden", "gardenctl-v2.yaml"), `gardens:
- {identity: other, kubeconfig: /nowhere}
- {identity: landscape-dev, name: dev, kubeconfig: ~/garden.yaml, context: two}
`)
		lies(filepath.Join(folder, "target.yaml"), "garden: landscape-dev\nshoot: live\n")
		// What gardenctl has written for the target is of no use for the plugin.
		lies(filepath.Join(folder, "kubeconfig.5f4dcc3b.yaml"), "of a shoot")
	})

	It("should lead to the garden of what is targeted, whatever KUBECONFIG is of", func() {
		g, err := connect()
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Host).To(Equal("https://127.0.0.2:2"))
		Expect(g.Namespace).To(Equal("garden-two"))
	})

	It("should know a garden by its other name, a session by its terminal, and the configuration by variables", func() {
		GinkgoT().Setenv("GCTL_SESSION_ID", "")
		GinkgoT().Setenv("TERM_SESSION_ID", "w0t1p0:"+session)
		elsewhere := GinkgoT().TempDir()
		GinkgoT().Setenv("GCTL_HOME", elsewhere)
		GinkgoT().Setenv("GCTL_CONFIG_NAME", "mine")
		lies(filepath.Join(elsewhere, "mine.yaml"), "gardens: [{identity: x, name: dev, kubeconfig: ~/garden.yaml}]")
		lies(filepath.Join(folder, "target.yaml"), "garden: dev\n")

		g, err := connect()
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Host).To(Equal("https://127.0.0.1:1"))
	})

	DescribeTable("should be overruled by flags", func(args ...string) {
		lies(filepath.Join(folder, "kubeconfig.5f4dcc3b.yaml"), kubeconfig)
		g, err := connect(args...)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Host).To(Equal("https://127.0.0.1:1"))
	},
		Entry("with a context", "--context", "one"),
		Entry("with a server", "--server", "https://127.0.0.1:1"),
	)

	It("should be overruled by a kubeconfig", func() {
		lies(filepath.Join(home, "mine.yaml"), kubeconfig)
		g, err := connect("--kubeconfig", filepath.Join(home, "mine.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Host).To(Equal("https://127.0.0.1:1"))
	})

	DescribeTable("should leave a KUBECONFIG alone that is not gardenctl's", func(change func()) {
		lies(filepath.Join(home, "mine.yaml"), kubeconfig)
		GinkgoT().Setenv("KUBECONFIG", filepath.Join(home, "mine.yaml"))
		change()
		Expect(access.ReadTarget(os.Getenv)).To(BeNil())
		g, err := connect()
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Host).To(Equal("https://127.0.0.1:1"))
	},
		Entry("with a session", func() {}),
		Entry("without a session", func() { GinkgoT().Setenv("GCTL_SESSION_ID", "") }),
		Entry("with a session that gardenctl would refuse", func() { GinkgoT().Setenv("GCTL_SESSION_ID", "../..") }),
	)

	DescribeTable("should say what is missing, rather than talk to a shoot", func(message string, change func()) {
		change()
		_, err := connect()
		Expect(err).To(MatchError(And(ContainSubstring(message), ContainSubstring("--kubeconfig"))))
	},
		Entry("without a target", "failed to read what gardenctl has targeted", func() {
			Expect(os.Remove(filepath.Join(folder, "target.yaml"))).To(Succeed())
		}),
		Entry("with a target that is no YAML", "failed to read what gardenctl has targeted", func() {
			lies(filepath.Join(folder, "target.yaml"), "- : -")
		}),
		Entry("without a garden", "gardenctl has targeted no garden", func() {
			lies(filepath.Join(folder, "target.yaml"), "shoot: live\n")
		}),
		Entry("without a configuration", "there is no gardenctl-v2.yaml in", func() {
			Expect(os.Remove(filepath.Join(home, ".garden", "gardenctl-v2.yaml"))).To(Succeed())
		}),
		Entry("with a configuration that is no YAML", "failed to read gardenctl's configuration", func() {
			lies(filepath.Join(home, ".garden", "gardenctl-v2.yaml"), "gardens: dev")
		}),
		Entry("with a garden that is not in it", "which is not in its configuration", func() {
			lies(filepath.Join(folder, "target.yaml"), "garden: gone\n")
		}),
	)

	Describe("project", func() {
		project := func(namespace *string) *gardencorev1beta1.Project {
			return &gardencorev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "core"},
				Spec: gardencorev1beta1.ProjectSpec{Namespace: namespace}}
		}

		DescribeTable("namespace", func(targeted string, in *gardencorev1beta1.Project, expected, message string) {
			c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme)
			if in != nil {
				c.WithObjects(in)
			}
			namespace, err := (&access.Target{Project: targeted}).Namespace(context.Background(), c.Build())
			Expect(namespace).To(Equal(expected))
			if message == "" {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(err).To(MatchError(And(ContainSubstring(message), ContainSubstring("-n"))))
			}
		},
			Entry("of no project", "", nil, "", ""),
			Entry("of a project", "core", project(new("garden-core")), "garden-core", ""),
			Entry("of a project that is not ready", "core", project(nil), "", "it has none"),
			Entry("of a project that is not there", "core", nil, "", "failed to get Project core"),
		)
	})
})
