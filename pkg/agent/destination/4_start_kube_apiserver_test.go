// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The kube-apiserver of the destination", func() {
	It("should not count as started before it answers through the gateway", func() {
		m := newMigration()
		var reasons []steps.Reason
		m.Report = func(_ context.Context, reason steps.Reason, _ string) error {
			reasons = append(reasons, reason)
			return nil
		}
		attempt, end := context.WithCancel(ctx)
		outcome, err := destination.Serve(attempt, newDeps(), m, func(context.Context) error {
			end() // otherwise it is asked again for a minute
			return errors.New("no route")
		})
		Expect(err).To(HaveOccurred())
		Expect(outcome.Finished()).To(BeFalse())
		Expect(reasons).To(Equal([]steps.Reason{steps.ReasonProbingKubeAPIServer}))

		outcome, err = destination.Serve(ctx, newDeps(), m, func(context.Context) error { return nil })
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(outcome.Message).To(ContainSubstring("takes writes through its gateway at 10.0.0.7"))
	})
})
