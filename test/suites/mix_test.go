// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	product "github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/drain"
	"github.com/livecpm/livecpm/test/drain/moves"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// mixArrival bounds how long a shoot that the drain calls done takes until its gardenlet has reconciled it.
const mixArrival = 15 * time.Minute

var _ = Describe("Drain of a seed with shoots of all kinds", Label(labelMix), Ordered, func() {
	var (
		cfg    *config.Config
		garden *driver.Cluster
		mix    *drain.Mix
		say    = func(format string, args ...any) {
			fmt.Printf(time.Now().UTC().Format(time.TimeOnly)+"  "+format+"\n", args...)
		}
	)

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		Expect(cfg.HasWorkers()).To(BeTrue(), "one of the shoots has workers: set %s to %s", config.EnvShoot,
			config.ShootWorkers)
		log.SetLogger(logr.Discard())
		bringUp(ctx, cfg)
		var err error
		garden, err = driver.ConnectGarden(cfg)
		Expect(err).NotTo(HaveOccurred())

		own := &gardencorev1beta1.Shoot{}
		Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: cfg.Shoot}, own)).To(Succeed())
		mix, err = drain.NewMix(cfg, own, time.Now(), say)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			if os.Getenv(envKeepShoots) == "" {
				Expect(mix.Down(ctx)).To(Succeed())
			}
		}, NodeTimeout(time.Hour))
		By("creating seven more shoots")
		Expect(mix.Up(ctx, garden.Client)).To(Succeed())
	}, NodeTimeout(2*time.Hour))

	It("should empty the seed, each shoot once and in the gentlest way that it permits", func(ctx SpecContext) {
		seed := drain.Seed{Garden: garden.Client, Name: mix.Source}
		DeferCleanup(func(ctx SpecContext) {
			Expect(seed.Cancel(ctx)).To(Succeed())
			Expect(seed.ForbidClassic(ctx)).To(Succeed())
			Eventually(ctx, seed.Visible).WithTimeout(drainSoon).Should(BeTrue())
		}, NodeTimeout(5*time.Minute))

		joinClients(cfg)
		By("putting load on the shoots that are awake")
		load, err := drain.StartLoad(ctx, cfg, garden.Client, mix.Awake()...)
		Expect(err).NotTo(HaveOccurred())
		var results map[string]*probe.Result
		stop := func(ctx context.Context) {
			if results == nil {
				results, err = load.Stop(ctx)
				Expect(err).NotTo(HaveOccurred())
				say("clients:\n%s%s", drain.Describe(results), drain.DescribeFailures(results))
			}
		}
		DeferCleanup(func(ctx SpecContext) { stop(ctx) }, NodeTimeout(5*time.Minute))
		seen := moves.New()
		watching, end := context.WithCancel(ctx)
		DeferCleanup(end)
		go moves.Watch(watching, garden.Client, seen.See, load.See)
		time.Sleep(drainAround)

		By("asking for the drain, which says at once how each shoot leaves")
		Expect(seed.PermitClassic(ctx)).To(Succeed())
		Expect(seed.Drain(ctx)).To(Succeed())
		Eventually(ctx, seed.Ways).WithTimeout(drainSoon).Should(Equal(mix.Ways))

		By("waiting until the seed is empty")
		Eventually(ctx, seed.Reason).WithTimeout(time.Duration(len(mix.Ways)) * drainMigration).
			WithPolling(time.Second).Should(Equal(product.ConditionReasonEmpty))
		done := map[string]string{}
		for name := range mix.Ways {
			done[name] = "Done Moved"
		}
		Eventually(ctx, seed.Table).WithTimeout(drainSoon).Should(Equal(done))
		for _, name := range mix.Awake() {
			target, err := driver.Open(driver.Target{Landscape: cfg, Namespace: shoot.Namespace, Name: name,
				Timeout: mixArrival, Out: GinkgoWriter})
			Expect(err).NotTo(HaveOccurred())
			Expect(target.Until(ctx, "the gardenlet of "+mix.Destination+" to have the shoot",
				func(shoot *gardencorev1beta1.Shoot) bool {
					return driver.HandedOverByRestoration(shoot, mix.Destination)
				})).To(Succeed())
		}
		time.Sleep(drainAround)
		stop(ctx)
		rows, err := seed.Rows(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(drain.WriteReport(filepath.Join(cfg.Repo, "_artifacts", "mix"), rows, results)).To(Succeed())
		say("moves:\n%s", drain.DescribeMoves(rows))

		Expect(seed.Ways(ctx)).To(Equal(mix.Ways))
		once := map[string]int{}
		for name := range mix.Ways {
			once[name] = 1
		}
		Expect(seen.Starts()).To(Equal(once))
		Expect(seen.Most()).To(Equal(map[string]int{moves.Total: cfg.DrainBudget,
			moves.OutOf(mix.Source): cfg.DrainBudget, moves.Into(mix.Destination): cfg.DrainBudget}))
		Expect(slices.Sorted(maps.Keys(results))).To(Equal(mix.Awake()))
		Expect(drain.Problems(results, mix.Ways)).To(BeEmpty())
	}, NodeTimeout(4*time.Hour))
})
