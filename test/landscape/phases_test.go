// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape_test

import (
	"context"
	"errors"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/outlook"
)

var _ = Describe("Phases", func() {
	It("should be the parts of the outlook, for each kind of landscape", func() {
		for _, shoot := range config.Shoots() {
			cfg := &config.Config{Shoot: shoot}
			var names []string
			for _, part := range landscape.Parts(cfg) {
				names = append(names, part.Name)
			}
			Expect(landscape.PhaseNames(cfg)).To(ConsistOf(names), shoot)
		}
	})

	It("should run each when those that it needs are done", func() {
		parts := landscape.Parts(&config.Config{})
		var mu sync.Mutex
		done := map[string]bool{}
		phases := map[string]func(context.Context) error{}
		for _, part := range parts {
			phases[part.Name] = func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				defer GinkgoRecover()
				for _, name := range part.Needs {
					Expect(name == outlook.PartDemo || done[name]).To(BeTrue(), "%s needs %s", part.Name, name)
				}
				done[part.Name] = true
				return nil
			}
		}
		Expect(landscape.RunPhases(context.Background(), parts, phases)).To(Succeed())
		Expect(done).To(HaveLen(len(parts)))
	})

	It("should end the others when one fails, begin no more, and tell the first failure", func() {
		parts := []outlook.Part{
			{Name: "build", Title: "build it"}, {Name: "start", Title: "start it"},
			{Name: "after", Title: "continue", Needs: []string{"start", "build"}},
		}
		err := landscape.RunPhases(context.Background(), parts, map[string]func(context.Context) error{
			"build": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			"start": func(context.Context) error { return errors.New("no luck") },
			"after": func(context.Context) error { Fail("must not run"); return nil },
		})
		Expect(err).To(MatchError("failed to start it: no luck"))
	})

	It("should end when it is told to", func() {
		ctx, cancel := context.WithCancel(context.Background())
		err := landscape.RunPhases(ctx, []outlook.Part{{Name: "build", Title: "build it"}},
			map[string]func(context.Context) error{
				"build": func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() },
			})
		Expect(err).To(MatchError(context.Canceled))
	})
})
