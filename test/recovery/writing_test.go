// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/recovery"
	"github.com/livecpm/livecpm/test/robustness/history"
)

// silent is a store that loses its answer to the first attempt, and may have carried it out.
type silent struct {
	objects map[string]history.Object
	lose    error
	carries bool
}

func (s *silent) Create(_ context.Context, key, value string) (uint64, error) {
	if _, exists := s.objects[key]; exists {
		return 0, history.ErrRejected
	}
	lost := s.lose
	s.lose = nil
	if lost == nil || s.carries {
		s.objects[key] = history.Object{Value: value, Revision: uint64(len(s.objects) + 7)}
	}
	if lost != nil {
		return 0, lost
	}
	return s.objects[key].Revision, nil
}

func (s *silent) Get(_ context.Context, key string) (history.Object, error) {
	if object, exists := s.objects[key]; exists {
		return object, nil
	}
	return history.Object{}, history.ErrAbsent
}

var _ = Describe("Writing", func() {
	lost := errors.New("etcdserver: request timed out")

	DescribeTable("should know at the next attempt whether one without an answer was carried out",
		func(ctx context.Context, carries bool) {
			store := &silent{objects: map[string]history.Object{}, lose: lost, carries: carries}
			attempt := recovery.NewWriting(store, "after")
			_, err := attempt(ctx)
			Expect(err).To(MatchError(lost))
			Expect(attempt(ctx)).To(BeEquivalentTo(7))
			Expect(store.objects).To(HaveKeyWithValue("after", history.Object{Value: "after", Revision: 7}))
		},
		Entry("if it was", true),
		Entry("if it was not", false),
	)

	It("should not take an object for its own that was there before", func(ctx context.Context) {
		store := &silent{objects: map[string]history.Object{"after": {Value: "after", Revision: 3}}}
		_, err := recovery.NewWriting(store, "after")(ctx)
		Expect(err).To(MatchError(history.ErrRejected))
	})

	It("should not take an object with another value for its own", func(ctx context.Context) {
		store := &silent{objects: map[string]history.Object{}, lose: lost}
		attempt := recovery.NewWriting(store, "after")
		_, err := attempt(ctx)
		Expect(err).To(MatchError(lost))
		store.objects["after"] = history.Object{Value: "other", Revision: 3}
		_, err = attempt(ctx)
		Expect(err).To(MatchError(ContainSubstring(`"other"`)))
	})
})
