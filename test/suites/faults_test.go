// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/evidence"
)

// faultsHealTimeout bounds the healing of what is still in force when a spec ends.
const faultsHealTimeout = 5 * time.Minute

// One spec is one migration with faults in every step. Which there are follows from the cells that the environment
// asks for. After each migration the shoot is on the other seed, and the next one moves it back.
var _ = Describe("Faults", Label(labelFaults), Ordered, ContinueOnFailure, func() {
	if !chosen(labelFaults) {
		return
	}
	cfg, err := config.FromEnvironment()
	if err != nil {
		It("should know its landscape", func() { Expect(err).NotTo(HaveOccurred()) })
		return
	}
	artifacts := filepath.Join(cfg.Repo, "_artifacts", "robustness")
	forceShrink, err := robustness.ForceShrink(os.Getenv)
	if err != nil {
		It("should know whether it is to force-shrink", func() { Expect(err).NotTo(HaveOccurred()) })
		return
	}
	if forceShrink {
		// Other migrations than those of the matrix.
		artifacts += "-force-shrink"
	}
	plan, err := planned(cfg.Repo, artifacts)
	if err != nil {
		It("should know the cells that it is asked for", func() { Expect(err).NotTo(HaveOccurred()) })
		return
	}

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		bringUp(ctx, cfg)
	}, NodeTimeout(upTimeout))

	for i, migration := range plan {
		names := make([]string, 0, len(migration))
		for _, cell := range migration {
			names = append(names, cell.String())
		}
		It(fmt.Sprintf("should survive migration %d of %d: %s", i+1, len(plan), strings.Join(names, ", ")),
			func(ctx SpecContext) {
				result, err := withFaults(ctx, robustness.Options{Landscape: cfg, Cells: migration,
					ForceShrink: forceShrink, Artifacts: artifacts})
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Err()).NotTo(HaveOccurred())
			}, NodeTimeout(robustness.DurationAlone(migration)))
	}

	AfterAll(func() {
		matrix, err := robustness.Known(cfg.Repo, artifacts)
		Expect(err).NotTo(HaveOccurred())
		// Also printed where only failures are.
		fmt.Println(matrix.Markdown())
	})
})

// withFaults migrates the landscape's shoot with the cells of the options, each alone or with those of its moment, and
// prints the report.
func withFaults(ctx context.Context, options robustness.Options) (*robustness.Result, error) {
	options.Namespace, options.Shoot, options.Alone = shoot.Namespace, shootName, &robustness.DefaultAlone
	options.Out = GinkgoWriter
	options.Cleanup = func(heal func(context.Context) error) {
		DeferCleanup(heal, NodeTimeout(faultsHealTimeout))
	}
	result, err := robustness.Run(ctx, options)
	if err == nil {
		GinkgoWriter.Println(result.Report)
	}
	return result, err
}

// planned returns the cells of each migration that the environment asks for.
func planned(repo, artifacts string) ([][]robustness.Cell, error) {
	cells, err := robustness.Select(os.Getenv)
	if err != nil {
		return nil, err
	}
	limit, err := robustness.Limit(os.Getenv)
	if err != nil || limit == 0 {
		return robustness.Plan(cells), err
	}
	matrix, err := robustness.Known(repo, artifacts)
	if err != nil {
		return nil, err
	}
	// What the code has made stale has to be run again.
	sources, err := evidence.Load(context.Background(), repo)
	if err != nil {
		return nil, err
	}
	if err := matrix.Assess(sources, robustness.Assessment{Time: time.Now()}); err != nil {
		return nil, err
	}
	migrations := robustness.Sample(cells, matrix, limit)
	if len(migrations) == 0 {
		return nil, fmt.Errorf("all the cells have passed and none is stale, see %s and %s; leave %s empty to repeat "+
			"them", robustness.Recorded, filepath.Join(artifacts, robustness.FileMatrixMarkdown),
			robustness.EnvMigrations)
	}
	return migrations, nil
}
