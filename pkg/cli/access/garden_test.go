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
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Garden", func() {
	ctx := context.Background()

	newShoot := func(namespace, name string, conditions ...gardencorev1beta1.Condition) *gardencorev1beta1.Shoot {
		shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if conditions != nil {
			shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: conditions}
		}
		return shoot
	}

	It("should list the shoots that ask for a live migration or show one", func() {
		asking := newShoot("one", "asking")
		asking.Annotations = map[string]string{steps.AnnotationIntent: "true"}
		asking.Spec.SeedName, asking.Status.SeedName = new("seed-b"), new("seed-a")
		ended := newShoot("one", "ended",
			gardencorev1beta1.Condition{Type: steps.First().Condition, Status: gardencorev1beta1.ConditionTrue})
		other := newShoot("two", "other",
			gardencorev1beta1.Condition{Type: steps.First().Condition, Status: gardencorev1beta1.ConditionTrue})
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(asking, ended, other,
			newShoot("one", "idle")).Build()
		g := &access.Garden{Client: c, Namespace: "one"}

		Expect(g.Migrated(ctx, "one")).To(ConsistOf(HaveField("Name", "asking"), HaveField("Name", "ended")))
		Expect(g.Migrated(ctx, metav1.NamespaceAll)).
			To(ConsistOf(HaveField("Name", "asking"), HaveField("Name", "ended"), HaveField("Name", "other")))
		Expect(g.ShootNames(ctx)).To(ConsistOf("asking", "ended", "idle"))
		_, err := g.Shoot(ctx, "missing")
		Expect(err).To(MatchError(ContainSubstring("failed to get Shoot one/missing")))
		Expect(client.IgnoreNotFound(err)).To(Succeed())
	})

	Describe("Flags", func() {
		const kubeconfig = `apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: garden-one}}
- {name: two, context: {cluster: c, user: u, namespace: garden-two}}
`
		connect := func(args ...string) (*access.Garden, error) {
			path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
			Expect(os.WriteFile(path, []byte(kubeconfig), 0o600)).To(Succeed())
			flags := access.NewGardenFlags()
			command := &cobra.Command{}
			flags.AddTo(command)
			Expect(command.ParseFlags(append([]string{"--kubeconfig", path}, args...))).To(Succeed())
			return flags.Connect(context.Background())
		}

		DescribeTable("namespace", func(expected string, args ...string) {
			g, err := connect(args...)
			Expect(err).NotTo(HaveOccurred())
			Expect(g.Namespace).To(Equal(expected))
		},
			Entry("of the current context", "garden-one"),
			Entry("of another context", "garden-two", "--context", "two"),
			Entry("given", "garden-three", "-n", "garden-three"),
		)

		It("should say what it could not read", func() {
			_, err := connect("--context", "three")
			Expect(err).To(MatchError(ContainSubstring("failed to read the kubeconfig of the garden")))
		})
	})
})
