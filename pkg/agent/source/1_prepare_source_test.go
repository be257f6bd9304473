// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The preparation of the source", func() {
	ctx := context.Background()

	DescribeTable("should ask a destination to prepare meanwhile that understands it",
		func(annotations map[string]string, asked bool) {
			deps := newDeps()
			Expect(deps.Garden.Create(ctx, &gardencorev1beta1.Seed{
				ObjectMeta: metav1.ObjectMeta{Name: "seed-b", Annotations: annotations},
			})).To(Succeed())
			m := &migration.Migration{Log: logr.Discard(), DestinationSeed: "seed-b"}
			Expect(source.MayAskAhead(ctx, deps, m)).To(Equal(asked))
		},
		Entry("of this release",
			map[string]string{steps.SeedAnnotationProtocols: steps.OwnProtocols().String()}, true),
		Entry("of the next one", map[string]string{steps.SeedAnnotationProtocols: "2-3"}, true),
		Entry("of the one before: an abort would wait for it for ever",
			map[string]string{steps.SeedAnnotationProtocols: "1"}, false),
		Entry("that says nothing", nil, false),
		Entry("that says nonsense", map[string]string{steps.SeedAnnotationProtocols: "all"}, false),
	)

	It("should ask nobody when the Seed cannot be read", func() {
		m := &migration.Migration{Log: logr.Discard(), DestinationSeed: "seed-b"}
		Expect(source.MayAskAhead(ctx, newDeps(), m)).To(BeFalse())
	})

	It("should ask when the ShootState is persisted, and from then on, also if a report is lost", func() {
		var reported []steps.Reason
		lost := errors.New("the garden does not answer")
		m := &migration.Migration{Log: logr.Discard(),
			Report: func(_ context.Context, reason steps.Reason, _ string) error {
				if reported = append(reported, reason); len(reported) == 2 {
					return lost
				}
				return nil
			}}
		Expect(source.AskAhead(ctx, m)).To(Succeed(), "the preparation does not wait for the garden")
		Expect(reported).To(Equal([]steps.Reason{steps.ReasonPersistingShootState, steps.ReasonShootStatePersisted,
			steps.ReasonShootStatePersisted}))
	})
})
