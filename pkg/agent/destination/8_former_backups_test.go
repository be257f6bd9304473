// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/destination"
)

var _ = Describe("The backups in the bucket of the source", func() {
	It("should be left behind when the bucket cannot be emptied, and the hand-over say so", func() {
		outcome, err := destination.LeaveBehind(ctx, newDeps(), newMigration(), func(context.Context) error {
			return errors.New("the bucket is locked")
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(outcome.Message).To(Equal("The control plane runs in seed seed-b and is handed over to its gardenlet; " +
			"the backups in the bucket old are left behind: the bucket is locked"))
	})

	It("should not be mentioned when they are deleted", func() {
		outcome, err := destination.LeaveBehind(ctx, newDeps(), newMigration(),
			func(context.Context) error { return nil })
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Message).To(HaveSuffix("is handed over to its gardenlet"))
	})

	It("should not be given up because the attempt is over", func() {
		cancelled, cancel := context.WithCancel(ctx)
		_, err := destination.LeaveBehind(cancelled, newDeps(), newMigration(), func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		Expect(err).To(MatchError(context.Canceled))
	})

	Context("as one after the other", func() {
		var (
			done   []string
			former destination.Former
			does   = func(name string, err error) func(context.Context) error {
				return func(context.Context) error { done = append(done, name); return err }
			}
			hindered = func(obstacle string, err error) func(context.Context) (string, error) {
				return func(context.Context) (string, error) { return obstacle, err }
			}
		)

		BeforeEach(func() {
			done = nil
			former = destination.Former{Obstacle: hindered("", nil), Copy: does("copy", nil), Keep: does("keep", nil),
				Remove: does("remove", nil)}
		})

		It("should be copied before they are deleted", func() {
			Expect(former.Move(ctx)).To(Succeed())
			Expect(done).To(Equal([]string{"copy", "remove"}))
		})

		DescribeTable("should be kept in the source's bucket", func(mutate func(), message string, did ...string) {
			mutate()
			outcome, err := destination.LeaveBehind(ctx, newDeps(), newMigration(), former.Move)
			Expect(err).NotTo(HaveOccurred())
			Expect(outcome.Finished()).To(BeTrue())
			Expect(outcome.Message).To(HaveSuffix("; the backups in the bucket old are left behind: " + message))
			Expect(done).To(Equal(did))
		},
			Entry("when they would come before the destination's", func() {
				former.Obstacle = hindered("they reach revision 4713", nil)
			}, "they are not copied: they reach revision 4713", "keep"),
			Entry("when nobody can tell whether they would", func() {
				former.Obstacle = hindered("", errors.New("the sidecar does not answer"))
			}, "they are not copied: the sidecar does not answer", "keep"),
			Entry("when they cannot be copied", func() {
				former.Copy = does("copy", errors.New("the bucket is locked"))
			}, "they are not copied: the bucket is locked", "copy", "keep"),
			Entry("when neither is possible", func() {
				former.Copy = does("copy", errors.New("the bucket is locked"))
				former.Keep = does("keep", errors.New("the garden is away"))
			}, "they are not copied: the bucket is locked; the garden is away", "copy", "keep"),
			Entry("when they are copied and cannot be deleted", func() {
				former.Remove = does("remove", errors.New("the bucket is locked"))
			}, "they are copied, but not deleted: the bucket is locked", "copy", "remove"),
		)

		It("should neither be given up nor deleted because the attempt is over", func() {
			cancelled, cancel := context.WithCancel(ctx)
			former.Copy = func(ctx context.Context) error {
				cancel()
				return ctx.Err()
			}
			Expect(former.Move(cancelled)).To(MatchError(context.Canceled))
			Expect(done).To(BeEmpty())
		})
	})
})
