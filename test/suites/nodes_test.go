// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// The moments are those in which livecpm claims to survive (docs/operations): a node with members of etcd is not
// drained in steps 2, 6 and 8, and no member loses its data before step 7. A fault of the next step holds the migration
// until what was before it is over.
var _ = Describe("Nodes", Label(labelNodes), Ordered, ContinueOnFailure, func() {
	var cfg *config.Config

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		Expect(cfg.Seeds[0].Apart()).To(BeTrue(), "the seeds have one node each: set %s to 3", config.EnvNodes)
		bringUp(ctx, cfg)
	}, NodeTimeout(upTimeout))

	boundary := func(name string, step gardencorev1beta1.ConditionType) robustness.Cell {
		return robustness.Cell{Fault: name, Step: step, Moment: fault.Boundary}
	}
	move := func(ctx context.Context, folder string, cells []robustness.Cell) {
		GinkgoHelper()
		result, err := robustness.Run(ctx, robustness.Options{
			Landscape: cfg,
			Namespace: shoot.Namespace,
			Shoot:     shootName,
			Cells:     cells,
			Artifacts: filepath.Join(cfg.Repo, "_artifacts", "nodes", folder),
			Out:       GinkgoWriter,
			Cleanup: func(heal func(context.Context) error) {
				DeferCleanup(heal, NodeTimeout(5*time.Minute))
			},
		})
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Println(result.Report)
		for _, cell := range result.Cells {
			// Also printed where only failures are.
			fmt.Printf("%s: %s, %d requests, %d failed, longest write gap %d ms\n", cell.Cell, cell.Outcome,
				cell.Requests, cell.FailedRequests, cell.LongestWriteGapMs)
		}
		for _, line := range result.Excuse(cells) {
			note(cfg.Repo, "not-run", line)
		}
		Expect(result.Err()).NotTo(HaveOccurred())
	}

	It("should place the control plane as its failure tolerance demands", func(ctx SpecContext) {
		expectSpread(ctx, cfg)
	}, NodeTimeout(5*time.Minute))

	drains := []robustness.Cell{
		boundary("node-drain-source", gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer),
		boundary("node-drain-joint-destination", gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady),
		boundary("relay-evict-source", gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords),
		boundary("agent-kill-both", gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete),
		boundary("node-drain-destination", gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup),
	}
	It("should move the control plane while nodes of both seeds are drained and all relays of the source are evicted",
		func(ctx SpecContext) {
			move(ctx, "drains", drains)
			expectSpread(ctx, cfg)
		}, NodeTimeout(robustness.Duration(drains)))

	// In each step in which a node with members may be drained, one in the seed that the others leave out.
	joint := []robustness.Cell{
		{Fault: "node-drain-source", Step: gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin,
			Moment: fault.Inside},
		boundary("node-drain-joint-destination",
			gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer),
		boundary("node-drain-source", gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady),
		boundary("node-drain-joint-both", gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords),
		boundary("agent-kill-both", gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete),
		boundary("node-drain-destination", gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup),
		boundary("agent-kill-both", gardencorev1beta1.ShootLiveMigrationMigrationCompleted),
	}
	It("should move it while nodes are drained in the other seed in each step, and in both seeds at once",
		func(ctx SpecContext) {
			move(ctx, "joint", joint)
			expectSpread(ctx, cfg)
		}, NodeTimeout(robustness.Duration(joint)))

	loss := []robustness.Cell{
		boundary("relay-evict-destination", gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady),
		boundary("agent-kill-both", gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords),
		boundary("node-loss-destination", gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup),
		boundary("agent-kill-both", gardencorev1beta1.ShootLiveMigrationMigrationCompleted),
	}
	It("should move it on while all relays of the destination are evicted and a node of it is lost with its volumes",
		func(ctx SpecContext) {
			move(ctx, "loss", loss)
			expectSpread(ctx, cfg)
		}, NodeTimeout(robustness.Duration(loss)))
})

// expectSpread expects the shoot's members of etcd and its kube-apiservers on a host each, and in a zone each if the
// shoot is to survive one.
func expectSpread(ctx context.Context, cfg *config.Config) {
	GinkgoHelper()
	garden, err := driver.ConnectGarden(cfg)
	Expect(err).NotTo(HaveOccurred())
	made := &gardencorev1beta1.Shoot{}
	Expect(garden.Client.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: shootName}, made)).To(Succeed())
	Expect(made.Status.SeedName).NotTo(BeNil())
	seed, err := driver.Connect(cfg, *made.Status.SeedName)
	Expect(err).NotTo(HaveOccurred())
	nodes := &corev1.NodeList{}
	Expect(seed.Client.List(ctx, nodes)).To(Succeed())
	zoneOf := map[string]string{}
	for _, node := range nodes.Items {
		zoneOf[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	for _, labels := range []client.MatchingLabels{
		{"app.kubernetes.io/part-of": "etcd-main"}, {"app.kubernetes.io/part-of": "etcd-events"},
		{"app": "kubernetes", "role": "apiserver"},
	} {
		Eventually(ctx, func(g Gomega) {
			pods := &corev1.PodList{}
			g.Expect(seed.Client.List(ctx, pods, client.InNamespace(made.Status.TechnicalID), labels)).To(Succeed())
			hosts, zones := sets.New[string](), sets.New[string]()
			running := 0
			for _, pod := range pods.Items {
				if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil ||
					metav1.GetControllerOf(&pod) == nil || pod.Status.Phase != corev1.PodRunning {
					continue
				}
				running++
				hosts.Insert(pod.Spec.NodeName)
				zones.Insert(zoneOf[pod.Spec.NodeName])
			}
			g.Expect(running).To(BeNumerically(">=", 2), "%v", labels)
			g.Expect(hosts).To(HaveLen(running), "hosts of %v", labels)
			if cfg.Tolerance == config.ToleranceZone {
				g.Expect(zones).To(HaveLen(running), "zones of %v", labels)
			}
		}).WithTimeout(2 * time.Minute).WithPolling(2 * time.Second).Should(Succeed())
	}
}
