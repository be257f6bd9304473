// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	product "github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/test/drain"
)

var _ = Describe("Seed", func() {
	var (
		ctx  = context.Background()
		seed = func(objects ...client.Object) drain.Seed {
			return drain.Seed{Name: "seed-a", Garden: fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
				WithObjects(objects...).Build()}
		}
		object = func(conditions ...gardencorev1beta1.Condition) *gardencorev1beta1.Seed {
			return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a"},
				Status: gardencorev1beta1.SeedStatus{Conditions: conditions}}
		}
	)

	It("should ask for the drain and take that back", func() {
		s := seed(object())
		requested := func() bool {
			stored := object()
			Expect(s.Garden.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
			return product.Requested(stored)
		}
		Expect(s.Drain(ctx)).To(Succeed())
		Expect(requested()).To(BeTrue())
		Expect(s.Cancel(ctx)).To(Succeed())
		Expect(requested()).To(BeFalse())
		Expect(seed().Drain(ctx)).To(MatchError(ContainSubstring("failed to get Seed seed-a")))
	})

	It("should tell what the seed says", func() {
		Expect(seed(object()).Reason(ctx)).To(BeEmpty())
		Expect(seed(object()).Visible(ctx)).To(BeFalse())
		visible := object(gardencorev1beta1.Condition{Type: product.ConditionDrained, Reason: "Draining"})
		visible.Spec.Settings = &gardencorev1beta1.SeedSettings{
			Scheduling: &gardencorev1beta1.SeedSettingScheduling{Visible: true},
		}
		Expect(seed(visible).Reason(ctx)).To(Equal("Draining"))
		Expect(seed(visible).Visible(ctx)).To(BeTrue())
	})

	It("should permit the classic way and take that back", func() {
		s := seed(object())
		annotations := func() map[string]string {
			stored := object()
			Expect(s.Garden.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
			return stored.Annotations
		}
		Expect(s.PermitClassic(ctx)).To(Succeed())
		Expect(annotations()).To(HaveKeyWithValue("migration.gardener.cloud/drain-fallback", "classic"))
		Expect(s.ForbidClassic(ctx)).To(Succeed())
		Expect(annotations()).To(BeEmpty())
	})

	It("should describe the moves", func() {
		Expect(drain.DescribeMoves([]product.TableRow{
			{Name: "x", State: product.Done, Way: product.Live, Destination: "seed-b",
				StartedAt: "2026-11-29T10:00:00Z", EndedAt: "2026-11-29T10:12:05Z"},
			{Name: "y", State: product.Waiting, Way: product.Classic, Destination: "seed-b"},
		})).To(Equal("x: Done, Live to seed-b in 12m5s\ny: Waiting, Classic to seed-b in an unknown time\n"))
	})

	It("should tell what the table says", func() {
		content, err := product.SeedPlan{Seed: product.Seed{Name: "seed-a"}, Entries: []product.Entry{
			{Shoot: product.Shoot{Key: product.Key{Namespace: "garden-demo", Name: "x"}}, State: product.Waiting,
				Reason: product.ReasonPause, By: product.LiveWithGap},
		}}.Table().Encode()
		Expect(err).NotTo(HaveOccurred())
		table := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "garden",
			Name: product.TableName("seed-a")}, Data: map[string]string{product.TableKey: content}}
		Expect(seed(table).Table(ctx)).To(Equal(map[string]string{"x": "Waiting PauseAfterMigration"}))
		Expect(seed(table).Ways(ctx)).To(Equal(map[string]product.Way{"x": product.LiveWithGap}))
		_, err = seed().Table(ctx)
		Expect(err).To(MatchError(ContainSubstring("failed to get ConfigMap garden/livecpm-drain-seed-a")))
	})
})
