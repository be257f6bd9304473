// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// on returns a shoot that is on a seed as its specification and its status say.
func on(spec, status string) *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", Generation: 3},
		Spec:       gardencorev1beta1.ShootSpec{SeedName: &spec},
		Status: gardencorev1beta1.ShootStatus{SeedName: &status, ObservedGeneration: 3,
			LastOperation: &gardencorev1beta1.LastOperation{
				Type:  gardencorev1beta1.LastOperationTypeReconcile,
				State: gardencorev1beta1.LastOperationStateSucceeded,
			}},
	}
}

var _ = Describe("Seeds of a shoot", func() {
	It("should be known of one that is at rest", func() {
		Expect(driver.AtRest(on("seed-a", "seed-a"))).To(Equal("seed-a"))
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		Expect(driver.OtherSeed(cfg, "seed-a")).To(Equal("seed-b"))
		Expect(driver.OtherSeed(cfg, "seed-b")).To(Equal("seed-a"))
	})

	It("should not be known of one that is between two, or on none", func() {
		for _, shoot := range []*gardencorev1beta1.Shoot{on("seed-b", "seed-a"), on("", ""), {}} {
			_, err := driver.AtRest(shoot)
			Expect(err).To(MatchError(ContainSubstring("is not at rest on one seed")))
		}
	})
})

var _ = DescribeTable("Hand-over", func(change func(*gardencorev1beta1.Shoot), reconciled, restored bool) {
	shoot := on("seed-b", "seed-b")
	change(shoot)
	Expect(driver.HandedOver(shoot, "seed-b")).To(Equal(reconciled))
	Expect(driver.HandedOverByRestoration(shoot, "seed-b")).To(Equal(restored))
},
	Entry("of a shoot that is reconciled", func(*gardencorev1beta1.Shoot) {}, true, true),
	Entry("of a shoot that is restored", func(s *gardencorev1beta1.Shoot) {
		s.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeRestore
	}, false, true),
	Entry("of a shoot that is only migrated", func(s *gardencorev1beta1.Shoot) {
		s.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeMigrate
	}, false, false),
	Entry("in progress", func(s *gardencorev1beta1.Shoot) {
		s.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
	}, false, false),
	Entry("to another seed", func(s *gardencorev1beta1.Shoot) { *s.Status.SeedName = "seed-a" }, false, false),
	Entry("of an older generation", func(s *gardencorev1beta1.Shoot) { s.Generation = 4 }, false, false),
	Entry("without an operation", func(s *gardencorev1beta1.Shoot) { s.Status.LastOperation = nil }, false, false),
)

var _ = Describe("Shoot", func() {
	open := func(timeout time.Duration, objects ...client.Object) (*driver.Shoot, *bytes.Buffer) {
		out := &bytes.Buffer{}
		garden := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).Build()
		return &driver.Shoot{
			Target: driver.Target{Timeout: timeout, Out: out},
			Key:    client.ObjectKey{Namespace: "garden-demo", Name: "live"},
			Garden: &driver.Cluster{Name: "garden", Client: garden},
		}, out
	}

	It("should be annotated, and the annotation taken away", func(ctx SpecContext) {
		shoot, _ := open(time.Minute, on("seed-a", "seed-a"))
		Expect(shoot.Annotate(ctx, steps.AnnotationPauseBefore, "X")).To(Succeed())
		now, err := shoot.Get(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).To(HaveKeyWithValue(steps.AnnotationPauseBefore, "X"))
		Expect(shoot.Annotate(ctx, steps.AnnotationPauseBefore, "")).To(Succeed())
		now, err = shoot.Get(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).NotTo(HaveKey(steps.AnnotationPauseBefore))
	})

	It("should be followed until it is as expected, over looks that fail", func(ctx SpecContext) {
		shoot, _ := open(time.Minute)
		looks := 0
		Expect(shoot.Follow(ctx, time.Millisecond, func(sight driver.Sight) bool {
			Expect(sight.Err).To(MatchError(ContainSubstring("failed to get shoot garden-demo/live")))
			looks++
			return looks == 3
		})).To(Succeed())
		Expect(looks).To(Equal(3))
	})

	It("should tell why it is not followed any more", func(ctx SpecContext) {
		shoot, _ := open(time.Minute, on("seed-a", "seed-a"))
		enough := errors.New("enough")
		ended, end := context.WithCancelCause(ctx)
		Expect(shoot.Follow(ended, time.Millisecond, func(sight driver.Sight) bool {
			Expect(sight.Ended).NotTo(BeTemporally("<", sight.Began))
			end(enough)
			return false
		})).To(MatchError(enough))
	})

	It("should tell what was seen last of one that was waited for in vain", func(ctx SpecContext) {
		shoot, out := open(10*time.Millisecond, on("seed-a", "seed-a"))
		err := shoot.UntilReconciled(ctx, "seed-b")
		Expect(err).To(MatchError(ContainSubstring(
			"failed to wait for the gardenlet of seed-b to reconcile the shoot; last seen: Reconcile Succeeded")))
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(out.String()).To(ContainSubstring("Reconcile Succeeded"))
		Expect(shoot.UntilReconciled(ctx, "seed-a")).To(Succeed())
	})

	It("should not be reconciled while an annotation of a migration is left", func(ctx SpecContext) {
		aborted := on("seed-a", "seed-a")
		aborted.Annotations = map[string]string{steps.AnnotationAbort: "true"}
		shoot, _ := open(10*time.Millisecond, aborted)
		Expect(shoot.UntilReconciled(ctx, "seed-a")).To(MatchError(context.DeadlineExceeded))
	})
})
