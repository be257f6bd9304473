// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/test/drain"
	"github.com/livecpm/livecpm/test/drain/moves"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

const (
	// envKeepShoots names the variable that keeps the shoots of the test, to look at them after a failure.
	envKeepShoots = "LIVECPM_DRAIN_KEEP"

	// drainAround is how long the load runs before the drain and after the last hand-over.
	drainAround = 30 * time.Second
	// managerDead is how long livecpm-controller-manager is gone when it was killed, drainQuiet how long nothing must
	// happen where nothing is to happen: longer than the pause after a migration and than the period of the looks in
	// the landscape.
	managerDead, drainQuiet = 10 * time.Second, 30 * time.Second
	// drainSoon bounds what the controller does at once, drainMigration what those of one budget take on a small
	// machine.
	drainSoon, drainMigration = time.Minute, 45 * time.Minute
)

var _ = Describe("Drain of a seed", Label(labelDrain), Ordered, func() {
	var (
		cfg *config.Config
		// budget is how many may leave a seed at the same time in the landscape.
		budget int
		garden *driver.Cluster
		fleet  *drain.Fleet
		say    = func(format string, args ...any) {
			fmt.Printf(time.Now().UTC().Format(time.TimeOnly)+"  "+format+"\n", args...)
		}
	)

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		log.SetLogger(logr.Discard())
		budget = cfg.DrainBudget
		bringUp(ctx, cfg)
		var err error
		garden, err = driver.ConnectGarden(cfg)
		Expect(err).NotTo(HaveOccurred())

		own := &gardencorev1beta1.Shoot{}
		Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: shootName}, own)).
			To(Succeed())
		fleet, err = drain.NewFleet(cfg, own, say)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			if os.Getenv(envKeepShoots) == "" {
				Expect(fleet.Down(ctx)).To(Succeed())
			}
		}, NodeTimeout(30*time.Minute))
		By("creating two more shoots that can move live, one that is hibernated, and one that cannot move")
		Expect(fleet.Up(ctx, garden.Client)).To(Succeed())
	}, NodeTimeout(2*time.Hour))

	It("should move what can move, live and within the budget, over a cancellation and two deaths of the controller",
		func(ctx SpecContext) {
			seed := drain.Seed{Garden: garden.Client, Name: fleet.Source}
			visible, err := seed.Visible(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(visible).To(BeTrue())
			Expect(budget).To(BeNumerically("<", len(fleet.Moving)), "one has to wait; set "+config.EnvDrainBudget)

			seen := moves.New()
			watching, end := context.WithCancel(ctx)
			DeferCleanup(end)
			go moves.Watch(watching, garden.Client, seen.See)
			// Whatever happens, the landscape is left as it was.
			DeferCleanup(func(ctx SpecContext) {
				Expect(drain.StartManager(ctx, cfg)).To(Succeed())
				Expect(seed.Cancel(ctx)).To(Succeed())
				Expect(seed.LetHibernatedGo(ctx)).To(Succeed())
				Eventually(ctx, seed.Visible).WithTimeout(drainSoon).Should(BeTrue())
			}, NodeTimeout(5*time.Minute))

			joinClients(cfg)
			By("putting load on the shoots that move")
			load, err := drain.StartLoad(ctx, cfg, garden.Client, fleet.Moving...)
			Expect(err).NotTo(HaveOccurred())
			stopped := false
			stop := func(ctx context.Context) []string {
				stopped = true
				results, err := load.Stop(ctx)
				Expect(err).NotTo(HaveOccurred())
				say("clients:\n%s", drain.Describe(results))
				return drain.Problems(results, nil)
			}
			DeferCleanup(func(ctx SpecContext) {
				if !stopped {
					stop(ctx)
				}
			}, NodeTimeout(5*time.Minute))
			time.Sleep(drainAround)

			By("asking for the drain, without the hibernated shoot at first")
			Expect(seed.KeepHibernated(ctx)).To(Succeed())
			Expect(seed.Drain(ctx)).To(Succeed())
			Eventually(seen.Now).WithTimeout(drainSoon).Should(HaveLen(budget))
			first := seen.Now()
			say("on their way: %v", slices.Sorted(maps.Keys(first)))
			Expect(first).To(HaveEach(fleet.Destination))
			Eventually(ctx, seed.Visible).WithTimeout(drainSoon).Should(BeFalse())
			expected := map[string]string{fleet.Hibernated: "Blocked ShootHibernated",
				fleet.Single: "Blocked NotHighlyAvailable"}
			var waiting []string
			for _, name := range fleet.Moving {
				if _, leaves := first[name]; leaves {
					expected[name] = "Running Migrating"
					continue
				}
				expected[name] = "Waiting SourceBudgetUsed"
				waiting = append(waiting, name)
			}
			Eventually(ctx, seed.Table).WithTimeout(drainSoon).Should(Equal(expected))

			By("killing livecpm-controller-manager while shoots are on their way")
			Expect(drain.KillManager(ctx, cfg)).To(Succeed())
			time.Sleep(managerDead)
			Expect(drain.StartManager(ctx, cfg)).To(Succeed())
			Consistently(seen.Starts).WithTimeout(drainQuiet).Should(HaveLen(budget))

			By("cancelling while shoots are on their way")
			Expect(seed.Cancel(ctx)).To(Succeed())
			Eventually(ctx, seed.Visible).WithTimeout(drainSoon).Should(BeTrue())
			Eventually(ctx, seed.Reason).WithTimeout(drainSoon).Should(Equal("Cancelling"))
			Eventually(seen.Now).WithTimeout(drainMigration).WithPolling(time.Second).Should(BeEmpty())
			say("the running migrations are over")
			Eventually(ctx, seed.Reason).WithTimeout(drainSoon).Should(BeEmpty())
			Consistently(seen.Starts).WithTimeout(drainQuiet).Should(HaveLen(budget))

			By("resuming the drain")
			Expect(seed.Drain(ctx)).To(Succeed())
			Eventually(seen.Now).WithTimeout(drainSoon).Should(HaveLen(min(budget, len(waiting))))
			for name := range seen.Now() {
				Expect(waiting).To(ContainElement(name), "what has moved does not move again")
			}
			By("killing livecpm-controller-manager once more, and letting it be dead for a while")
			Expect(drain.KillManager(ctx, cfg)).To(Succeed())
			time.Sleep(managerDead)
			Expect(drain.StartManager(ctx, cfg)).To(Succeed())
			Eventually(ctx, seed.Reason).WithTimeout(time.Duration(len(waiting)) * drainMigration).
				WithPolling(time.Second).Should(Equal("ShootsBlocked"))
			Expect(seen.Now()).To(BeEmpty())

			By("looking at what is left")
			for _, name := range fleet.Moving {
				expected[name] = "Done Moved"
			}
			Eventually(ctx, seed.Table).WithTimeout(drainSoon).Should(Equal(expected))
			for _, name := range fleet.Moving {
				target, err := driver.Open(driver.Target{Landscape: cfg, Namespace: shoot.Namespace, Name: name,
					Timeout: drainMigration, Out: GinkgoWriter})
				Expect(err).NotTo(HaveOccurred())
				Expect(target.UntilReconciled(ctx, fleet.Destination)).To(Succeed())
			}
			time.Sleep(drainAround)
			Expect(stop(ctx)).To(BeEmpty())

			most := seen.Most()
			say("most at once: %v", most)
			Expect(most).To(Equal(map[string]int{moves.Total: budget, moves.OutOf(fleet.Source): budget,
				moves.Into(fleet.Destination): budget}))
			Expect(seen.Starts()).To(Equal(map[string]int{fleet.Moving[0]: 1, fleet.Moving[1]: 1, fleet.Moving[2]: 1}))

			By("letting the hibernated shoot go")
			Expect(seed.LetHibernatedGo(ctx)).To(Succeed())
			expected[fleet.Hibernated] = "Done Moved"
			Eventually(ctx, seed.Table).WithTimeout(drainMigration).WithPolling(time.Second).Should(Equal(expected))
			Expect(seen.Starts()).To(HaveKeyWithValue(fleet.Hibernated, 1))
		}, NodeTimeout(3*time.Hour))
})
