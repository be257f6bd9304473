// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/planted"
)

const (
	// plantedPlan bounds a plan with a probe. The plugin itself gives up after 15 minutes.
	plantedPlan = 17 * time.Minute
	// plantedRemoval bounds how long it may take until a fault is gone.
	plantedRemoval = 10 * time.Minute
)

// No migration is asked for. Each spec plants one fault in the destination and takes it away again, so that the others
// say something also if it fails.
var _ = Describe("A plan with a probe", Label(labelPlanted), Ordered, ContinueOnFailure, func() {
	var (
		cfg     *config.Config
		livecpm plugin
		world   *planted.World
	)
	// plan makes a plan, and returns it with the exit code of the plugin.
	plan := func(ctx context.Context) (view.Plan, exit.Code) {
		GinkgoHelper()
		var out bytes.Buffer
		cmd := livecpm.command(ctx, "plan", shootName, "--to", world.Seed.Name, "--probe", "-o", "json")
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, GinkgoWriter), GinkgoWriter
		var failed *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
			Expect(err).NotTo(HaveOccurred())
		}
		var found view.Plan
		Expect(json.Unmarshal(out.Bytes(), &found)).To(Succeed())
		return found, exit.Code(cmd.ProcessState.ExitCode())
	}
	permitted := func(ctx context.Context) {
		GinkgoHelper()
		found, code := plan(ctx)
		Expect(planted.Named(found)).To(BeEmpty())
		Expect(code).To(Equal(exit.Done))
		Expect(found.CanGo).To(BeTrue())
		Expect(found.Checks).To(ContainElement(HaveField("Evidence", And(
			ContainSubstring("had room for the largest control plane that waited"),
			MatchRegexp(`its nodes have the [1-9]\d* images of the control planes that waited`)))))
	}

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		livecpm = plugin{cfg: cfg, folder: GinkgoT().TempDir()}
		livecpm.build(ctx)
		bringUp(ctx, cfg)
		world = plantedWorld(ctx, cfg)
		Expect(planted.Clear(ctx, world)).To(Succeed())
	}, NodeTimeout(upTimeout+plantedRemoval))

	It("should permit a migration in which nothing is wrong", func(ctx SpecContext) { permitted(ctx) },
		NodeTimeout(plantedPlan))

	for _, fault := range planted.Faults() {
		It("should find "+fault.Name, func(ctx SpecContext) {
			DeferCleanup(func(ctx SpecContext) {
				Expect(fault.Remove(ctx, world)).To(Succeed())
			}, NodeTimeout(plantedRemoval))
			Expect(fault.Plant(ctx, world)).To(Succeed())
			found, code := plan(ctx)
			Expect(code).To(Equal(exit.No))
			Expect(fault.Judge(found)).To(Succeed())
		}, NodeTimeout(plantedPlan+plantedRemoval))
	}

	It("should permit the migration when all of that is gone", func(ctx SpecContext) { permitted(ctx) },
		NodeTimeout(plantedPlan))
})

// plantedWorld connects to the garden and to the seed that the shoot is not in. The shoot has to be at rest.
func plantedWorld(ctx context.Context, cfg *config.Config) *planted.World {
	GinkgoHelper()
	live, err := driver.Open(driver.Target{Landscape: cfg, Namespace: shoot.Namespace, Name: shootName,
		Timeout: time.Minute, Out: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	source, destination, err := live.Seeds(ctx)
	Expect(err).NotTo(HaveOccurred())
	seed, err := driver.Connect(cfg, destination)
	Expect(err).NotTo(HaveOccurred())
	return &planted.World{Landscape: cfg, Garden: live.Garden, Seed: seed, Source: source}
}
