// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/robustness"
)

// Migrations with faults that are drawn, for hours. The first one that fails is made again with fewer faults.
var _ = Describe("Drawn faults", Label(labelDrawn), Ordered, func() {
	if !chosen(labelDrawn) {
		return
	}
	search, err := robustness.SearchOf(os.Getenv, uint64(time.Now().UnixNano())) // #nosec G115 -- any number will do.
	if err != nil {
		It("should know what it is asked for", func() { Expect(err).NotTo(HaveOccurred()) })
		return
	}
	var cfg *config.Config

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		bringUp(ctx, cfg)
	}, NodeTimeout(upTimeout))

	// Also printed where only failures are.
	say := func(format string, args ...any) {
		fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}

	It("should be survived by every migration", func(ctx SpecContext) {
		made, err := search.Run(clock.RealClock{}, say, func(cells []robustness.Cell) (bool, error) {
			// Other migrations than those of the matrix: faults may share a window.
			result, err := withFaults(ctx, robustness.Options{Landscape: cfg, Cells: cells,
				Artifacts: filepath.Join(cfg.Repo, "_artifacts", "robustness-drawn")})
			if err != nil {
				return false, err
			}
			for _, cell := range result.Cells {
				say("%s: %s %s", cell.Cell, cell.Outcome, cell.Problems)
			}
			// A moment that did not come, or was too short for its fault, is nothing that has failed.
			return slices.ContainsFunc(result.Cells, func(c robustness.CellResult) bool {
				return c.Outcome == robustness.Broken
			}), nil
		})
		say("%d migrations with faults of %s have not failed", made, search)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(search.Lasts+robustness.DrawnTimeout))
})
