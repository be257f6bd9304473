// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/migration/drain"
)

var _ = Describe("The drain of a seed", func() {
	var (
		ctx   = context.Background()
		table = func(seed, content string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "livecpm-drain-" + seed},
				Data: map[string]string{"table.json": content}}
		}
		g *access.Garden
	)

	BeforeEach(func() {
		content, err := drain.SeedPlan{Seed: drain.Seed{Name: "seed-a", Draining: true}}.Table().Encode()
		Expect(err).NotTo(HaveOccurred())
		g = &access.Garden{Namespace: "one",
			Client: fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
				&gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"}}, table("seed-a", content),
				table("seed-b", `{"kind":"Another"}`),
			).Build()}
	})

	It("should return the seed", func() {
		Expect(g.Seed(ctx, "seed-a")).To(HaveField("Name", "seed-a"))
		_, err := g.Seed(ctx, "seed-c")
		Expect(err).To(MatchError(ContainSubstring("failed to get Seed seed-c")))
	})

	It("should return the table, or nil if there is none", func() {
		Expect(g.DrainTable(ctx, "seed-a")).To(HaveField("Seed", "seed-a"))
		Expect(g.DrainTable(ctx, "seed-c")).To(BeNil())
	})

	It("should not take another object for a table", func() {
		_, err := g.DrainTable(ctx, "seed-b")
		Expect(err).
			To(MatchError(And(ContainSubstring("ConfigMap garden/livecpm-drain-seed-b"), ContainSubstring("Another"))))
	})
})
