// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/graphs"
)

var _ = Describe("Flows", func() {
	It("should have the tasks that are written down, each after what it waits for", func() {
		m := &migration.Migration{Shoot: &gardencorev1beta1.Shoot{}, Role: steps.Source}
		graphs.Compare("testdata/graphs", source.Graphs(newDeps(), m))
	})

	It("should compile", func() {
		m := &migration.Migration{Shoot: &gardencorev1beta1.Shoot{}, Role: steps.Source}
		for situation, graph := range source.Graphs(newDeps(), m) {
			compiled := graph.Compile()
			Expect(compiled.Len()).To(BeNumerically(">", 0), situation)
			fmt.Fprintf(GinkgoWriter, "%s: %s with %d tasks\n", situation, compiled.Name(), compiled.Len())
		}
	})
})
