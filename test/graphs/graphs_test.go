// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package graphs_test

import (
	"context"

	"github.com/gardener/gardener/pkg/utils/flow"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/graphs"
)

var _ = Describe("Text", func() {
	It("should leave out what is skipped, and what another dependency implies", func() {
		nothing := func(context.Context) error { return nil }
		g := flow.NewGraph("test")
		first := g.Add(flow.Task{Name: "first", Fn: nothing})
		skipped := g.Add(flow.Task{Name: "skipped", Fn: nothing, SkipIf: true, Dependencies: flow.NewTaskIDs(first)})
		other := g.Add(flow.Task{Name: "other", Fn: nothing})
		second := g.Add(flow.Task{Name: "second", Fn: nothing, Dependencies: flow.NewTaskIDs(skipped, other)})
		g.Add(flow.Task{Name: "third", Fn: nothing, Dependencies: flow.NewTaskIDs(first, second)})
		Expect(graphs.Text(g)).To(Equal(
			"first\nother\nsecond\n  after first\n  after other\nthird\n  after second\n"))
	})
})
