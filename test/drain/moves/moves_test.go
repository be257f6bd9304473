// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/drain/moves"
)

var _ = Describe("Moves", func() {
	var (
		m     *moves.Moves
		shoot = func(name, spec, status string) *gardencorev1beta1.Shoot {
			return &gardencorev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: name,
					Annotations: map[string]string{steps.AnnotationIntent: "true"}},
				Spec:   gardencorev1beta1.ShootSpec{SeedName: &spec},
				Status: gardencorev1beta1.ShootStatus{SeedName: &status},
			}
		}
		see = func(name, spec, status string) { m.See(watch.Modified, shoot(name, spec, status)) }
	)

	BeforeEach(func() { m = moves.New() })

	It("should count what is on its way at the same time, not what is on its way in turn", func() {
		see("x", "b", "a")
		see("x", "b", "a")
		see("x", "b", "b")
		see("y", "b", "a")
		Expect(m.Most()).To(Equal(map[string]int{moves.Total: 1, moves.OutOf("a"): 1, moves.Into("b"): 1}))

		see("x", "c", "b")
		Expect(m.Most()).To(
			Equal(map[string]int{moves.Total: 2, moves.OutOf("a"): 1, moves.OutOf("b"): 1, moves.Into("b"): 1,
				moves.Into("c"): 1}))
		see("z", "b", "a")
		Expect(m.Most()).To(And(HaveKeyWithValue(moves.Total, 3), HaveKeyWithValue(moves.OutOf("a"), 2),
			HaveKeyWithValue(moves.Into("b"), 2)))
		Expect(m.Now()).To(Equal(map[string]string{"x": "c", "y": "b", "z": "b"}))
		Expect(m.Starts()).To(Equal(map[string]int{"x": 2, "y": 1, "z": 1}))
	})

	It("should not count what is aborted or gone", func() {
		see("x", "b", "a")
		aborted := shoot("x", "b", "a")
		updated, err := conditions.Abort(clock.RealClock{}, conditions.Initialize(clock.RealClock{}, nil),
			conditions.AbortChange{Role: steps.Source, Reason: steps.ReasonAborted, Message: "as before"})
		Expect(err).NotTo(HaveOccurred())
		aborted.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		m.See(watch.Modified, aborted)
		Expect(m.Now()).To(BeEmpty())

		see("y", "b", "a")
		m.See(watch.Deleted, shoot("y", "b", "a"))
		Expect(m.Now()).To(BeEmpty())
		Expect(m.Most()).To(HaveKeyWithValue(moves.Total, 1))
	})

	It("should see every change until it is told to end", func() {
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build()
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			moves.Watch(ctx, garden, m.See)
		}()
		// The fake shows what happens after the watch has begun only.
		Eventually(func() map[string]string {
			Expect(client.IgnoreNotFound(garden.Delete(ctx, shoot("x", "b", "a")))).To(Succeed())
			Expect(garden.Create(ctx, shoot("x", "b", "a"))).To(Succeed())
			return m.Now()
		}).Should(Equal(map[string]string{"x": "b"}))
		Expect(garden.Delete(ctx, shoot("x", "b", "a"))).To(Succeed())
		Eventually(m.Now).Should(BeEmpty())
		end()
		Eventually(ended).Should(BeClosed())
	})
})
